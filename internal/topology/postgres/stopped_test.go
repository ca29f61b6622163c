package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// A watchdog writes the row while clients wait, whatever the process that it stands in
// for was stopped in.
func TestACommitThatWasStoppedKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	dsn := pgtest.NewDatabase(t).DSN()
	hung, watchdog := router(t, dsn), router(t, dsn)
	if err := hung.Commit(t.Context(), document(t, 1, "source")); err != nil {
		t.Fatal(err)
	}
	later := document(t, 3, "db0")
	err := hung.CommitStopping(t.Context(), document(t, 2, "db0"), func() {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := watchdog.Commit(ctx, later); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		t.Error("the one that was stopped says that it has committed")
	}
	if err := watchdog.ReadBack(t.Context(), later); err != nil {
		t.Error(err)
	}
}
