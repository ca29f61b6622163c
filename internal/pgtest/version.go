package pgtest

import "testing"

// Since skips a test of what a major version of the server brought, where the tests run
// on an older one.
func Since(t testing.TB, db *Database, major string) {
	t.Helper()
	if have := db.Value(t, "SELECT current_setting('server_version_num')::int / 10000"); len(have) < len(major) || have < major {
		t.Skipf("the server is of version %s, what is tested came with %s", have, major)
	}
}
