package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
)

// ErrNotFound is wrapped by the errors of FindPostgres and FindPgBouncer when
// the program is not installed; the error's text says what to install.
var ErrNotFound = errors.New("not installed")

// FindPostgres gives the folder that holds initdb and postgres: the one in PATH,
// the one that pg_config names, or the newest in the places of Debian and of
// Homebrew.
func FindPostgres() (string, error) {
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// PATH may hold a link to postgres alone; initdb is beside the real one.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(real))
		}
		candidates = append(candidates, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		candidates = append(candidates, newestFirst(pattern)...)
	}
	return firstServer(candidates)
}

func firstServer(folders []string) (string, error) {
	for _, dir := range folders {
		if executable(filepath.Join(dir, "postgres")) && executable(filepath.Join(dir, "initdb")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL server programs (postgres, initdb): %w: %s", ErrNotFound,
		advice("apt-get install postgresql", "brew install postgresql@17"))
}

// FindPgBouncer gives the path of pgbouncer.
func FindPgBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	for _, path := range []string{
		"/usr/sbin/pgbouncer",
		"/usr/local/sbin/pgbouncer",
		"/opt/homebrew/bin/pgbouncer",
		"/opt/homebrew/opt/pgbouncer/bin/pgbouncer",
		"/usr/local/opt/pgbouncer/bin/pgbouncer",
	} {
		if executable(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("PgBouncer (pgbouncer): %w: %s", ErrNotFound,
		advice("apt-get install pgbouncer", "brew install pgbouncer"))
}

func advice(debian, homebrew string) string {
	if runtime.GOOS == "darwin" {
		return "run `" + homebrew + "`"
	}
	return "run `" + debian + "`, or the like of it on this system"
}

var digits = regexp.MustCompile(`\d+`)

// newestFirst lists the matches of a pattern with the highest version first: the
// last number in the path, since folders above may have numbers of their own.
func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // the only error is a bad pattern
	version := func(dir string) int {
		numbers := digits.FindAllString(dir, -1)
		if len(numbers) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(numbers[len(numbers)-1])
		return n
	}
	sort.SliceStable(dirs, func(i, j int) bool { return version(dirs[i]) > version(dirs[j]) })
	return dirs
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
