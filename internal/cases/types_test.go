package cases

import (
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
)

//go:embed matrix.sql
var matrixSQL string

// typeFiles are the files of the matrix of types and shapes. Those of great size are for
// the long form.
func typeFiles(t *testing.T) (files []*file) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "types", "*.sql"))
	must(t, err)
	for _, path := range paths {
		f, err := readFile(path)
		must(t, err)
		if f.long == "" || pgtest.LongForm() {
			files = append(files, f)
		}
	}
	return files
}

// modesOf are the modes of backfill that a file is copied in. The short form takes one
// of them, by turns, but for the file of all built-in types.
func modesOf(f *file) []string {
	modes := []string{"fast", "live"}
	switch {
	case f.outcome == "refuse":
		return modes[:1]
	case pgtest.LongForm() || f.id == "T01":
		return modes
	}
	turn := int(f.id[len(f.id)-1]) % len(modes)
	return modes[turn : turn+1]
}

// Each file goes through the journey. Its tables that have an id are written to by all
// who write: see twins.
func TestTypes(t *testing.T) {
	free := make(chan *lane, lanes)
	for range lanes {
		free <- newLane(t)
	}
	t.Run("all", func(t *testing.T) {
		for _, f := range typeFiles(t) {
			for _, mode := range modesOf(f) {
				t.Run(f.id+" "+mode, func(t *testing.T) {
					t.Parallel()
					l := <-free
					t.Cleanup(func() { free <- l })
					r := newRun(t, l, f)
					r.sp = ofTypes(r.sp, mode)
					got := r.whole()
					if f.outcome == "exact" && got.outcome != "exact" {
						t.Errorf("it is %s: %s", got.outcome, got.why)
					}
					refusedAsNamed(t, f, got.why)
				})
			}
		}
	})
}

// refusedAsNamed compares the findings with those that a file names, each by its id and
// its object.
func refusedAsNamed(t *testing.T, f *file, why string) {
	t.Helper()
	var got []string
	for _, finding := range strings.Split(why, "; ") {
		head, _, _ := strings.Cut(finding, ": ")
		got = append(got, head)
	}
	want := strings.Split(f.refused, "; ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("refused is %q, not %q", got, want)
	}
}

// ofTypes is what a file of types adds to the journey: every writer writes every value,
// verify finds what was planted, and the journey goes forward once more.
func ofTypes(sp special, mode string) special {
	sp.setup = matrixSQL
	sp.backfill = []string{"--mode", mode}
	sp.live = func(r *run) error {
		if mode == "fast" {
			// A database that catch-up has written to is not copied fast.
			r.awaitAll("shardctl.backfill_mode", databases)
		}
		if err := r.twinsOnSource(1000); err != nil {
			return err
		}
		return r.app.run(r.ctx, r.f.live)
	}
	sp.verified = plantedEverywhere
	sp.cut = func(r *run) {
		r.turn("cutover")
		r.twinsOnShards(2000)
	}
	if mode == "fast" || pgtest.LongForm() {
		sp.returned = forwardAgain
	}
	return sp
}

// forwardAgain cuts over and rolls back a second time, with writes on each side.
func forwardAgain(r *run) {
	must(r.t, r.twinsOnSource(3000))
	r.mustBeLevel("before the second cutover")
	r.verified()
	r.turn("cutover")
	r.twinsOnShards(4000)
	r.mustBeLevel("after the second cutover")
	r.turn("rollback")
	r.mustBeLevel("after the second rollback")
}
