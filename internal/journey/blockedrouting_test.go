package journey

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/localpg"
)

// routing is the pooler, its file and what they lead to.
var routing = []obstacle{
	{"the pooler is down", 1, []string{"pgbouncer 127.0.0.1:", "is it up"}, set("PGB_ADMIN", func(s *siege) string { return secretDSN(freePort(s), localpg.Superuser, "pgbouncer") })},
	{"the console refuses the login", 1, []string{"stranger", "admin_users"}, set("PGB_ADMIN", func(s *siege) string { return secretDSN(s.w.bouncer.Port(), "stranger", "pgbouncer") })},
	{"the pooler's file cannot be written", 4, []string{"databases.ini"}, readOnly},
	{"session mode", 4, []string{"app_001", "session mode"}, entries("app_001 =", "app_001 = pool_mode=session", true)},
	{"clients would be ended early", 4, []string{"query_wait_timeout", "clients would be ended"}, func(s *siege) ([]string, func()) {
		s.console("SET query_wait_timeout = 1", nil)
		return nil, func() { s.console("SET query_wait_timeout = 60", nil) }
	}},
	{"a broken file", 4, []string{"databases.ini"}, entries("[databases]", "[databases\n", false)},
	{"an entry is missing", 4, []string{"app_002", "databases.ini"}, entries("app_002 =", "; app_002 =", false)},
	{"a router's address is wrong", 4, []string{"no query through it reaches"}, spec(`db1: {dsn: "${DB1_DSN}"`, func(s *siege) string {
		return fmt.Sprintf(`db1: {router: {port: %d}, dsn: "${DB1_DSN}"`, freePort(s))
	})},
}

func freePort(s *siege) int {
	port, err := localpg.FreePort()
	must(s.t, err)
	return port
}

// readOnly keeps even root from writing beside the pooler's file.
func readOnly(s *siege) ([]string, func()) {
	dir := filepath.Dir(s.w.bouncer.DatabasesFile)
	if os.Geteuid() != 0 {
		must(s.t, os.Chmod(dir, 0o555))
		return nil, func() { must(s.t, os.Chmod(dir, 0o755)) }
	}
	for _, way := range []struct{ do, undo []string }{
		{[]string{"chattr", "+i", s.w.bouncer.DatabasesFile}, []string{"chattr", "-i", s.w.bouncer.DatabasesFile}},
		{[]string{"mount", "-o", "bind,ro", dir, dir}, []string{"umount", dir}},
	} {
		if exec.Command(way.do[0], way.do[1:]...).Run() == nil {
			return nil, func() { must(s.t, exec.Command(way.undo[0], way.undo[1:]...).Run()) }
		}
	}
	s.t.Fatal("neither chattr nor a read-only mount can be had")
	return nil, nil
}
