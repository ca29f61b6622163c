package auditlog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// While a tick writes, no owner, fence or term changes under it, and no chunk writes
// beside it.
func TestATickHoldsItsLocks(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1, schema: "app"})
	r.source.Exec(t, twenty)
	hold := begin(t, r.dbs[0])
	exec(t, hold, "LOCK TABLE app.block IN EXCLUSIVE MODE")
	done := make(chan error, 1)
	go func() {
		_, err := r.applier.Forward(t.Context())
		done <- err
	}()
	soon(t, func() bool {
		return r.dbs[0].Value(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'app.block'::regclass") == "1"
	})
	other := r.connect(t, r.target(0))
	for what, lock := range map[string]func(context.Context, pgx.Tx) error{
		"an owner could change":  func(ctx context.Context, tx pgx.Tx) error { _, err := store.ChangeControl(ctx, tx, "m"); return err },
		"a chunk could be taken": func(ctx context.Context, tx pgx.Tx) error { return store.LockTableShared(ctx, tx, "m", 1) },
	} {
		err := postgres.WithTx(t.Context(), other, pgx.TxOptions{}, func(tx pgx.Tx) error {
			exec(t, tx, "SET LOCAL lock_timeout = '50ms'")
			return lock(t.Context(), tx)
		})
		if postgres.SQLState(err) != "55P03" {
			t.Errorf("while a tick writes, %s: %v", what, err)
		}
	}
	must(t, hold.Rollback(t.Context()))
	must(t, <-done)
	r.want(t)
}
