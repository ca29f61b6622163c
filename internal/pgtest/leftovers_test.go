package pgtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// recorder stands for a test that may fail, and keeps what it is told.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// end runs the cleanups as a test does, the last one first.
func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestWhatATestLeavesFailsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, leave, want string }{
		{"nothing", "SELECT 1", ""},
		{"prepared transaction", "BEGIN; PREPARE TRANSACTION 'left'", "prepared transaction left"},
		{"slot", "SELECT pg_create_logical_replication_slot('left_' || current_database(), 'test_decoding')", "replication slot left_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			db := pgtest.NewDatabase(r)
			db.Exec(t, c.leave)
			r.end()
			checkLeft(t, r, db, c.want)
		})
	}
}

func TestALeakedSessionFailsItsTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	db := pgtest.NewDatabase(r)
	conn, err := pgx.Connect(t.Context(), db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // its backend was terminated
	r.end()
	checkLeft(t, r, db, "session ")
}

// checkLeft expects one error that names what was left, and the database gone.
func checkLeft(t *testing.T, r *recorder, db *pgtest.Database, want string) {
	t.Helper()
	switch {
	case want == "" && len(r.errors) > 0:
		t.Errorf("errors of a clean test: %q", r.errors)
	case want != "" && (len(r.errors) != 1 || !strings.Contains(r.errors[0], want)):
		t.Errorf("errors: %q, want one with %q", r.errors, want)
	}
	other := pgtest.NewDatabase(t)
	if got := other.Value(t, "SELECT count(*) FROM pg_database WHERE datname = $1", db.Name); got != "0" {
		t.Error("the database was not dropped")
	}
}
