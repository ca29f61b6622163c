package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// commitTimeout bounds the wait for a COMMIT's answer; past it the outcome is
// read back instead.
const commitTimeout = 2 * time.Second

// errUndone says that a COMMIT did not happen; the attempt may be undone.
var errUndone = errors.New("the commit did not happen")

// commit ends the lock transaction. Once the COMMIT was sent, an answer that does
// not come is not taken for a no: the outcome is read back. It returns nil when the
// switch is committed, errUndone (wrapped) when it is not, and another error when
// neither could be found out.
func (w *window) commit(ctx context.Context, tx pgx.Tx, backend postgres.Backend, epoch int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) || (!postgres.Ambiguous(err) && !postgres.Transient(err)) {
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	committed, readErr := w.readBack(ctx, backend, epoch)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case committed:
		return nil
	default:
		return fmt.Errorf("%w: %w", errUndone, err)
	}
}

// readBack finds out whether an epoch was committed: the backend that sent the
// COMMIT is ended and gone, then the row is locked alone. A plain read would prove
// nothing while the COMMIT may still be in flight.
func (w *window) readBack(ctx context.Context, backend postgres.Backend, epoch int64) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.MaxPause)
	defer cancel()
	conn, err := postgres.Connect(ctx, w.cfg.Source, "commit read-back")
	if err != nil {
		return false, err
	}
	defer postgres.CloseQuietly(ctx, conn)
	if err := postgres.TerminateBackend(ctx, conn, backend); err != nil {
		return false, err
	}
	var committed bool
	err = postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		o, err := store.ChangeOwnership(ctx, tx, w.cfg.migration(), w.cfg.Databases[0].Name)
		committed = o.Epoch >= epoch
		return err
	})
	return committed, err
}

// moveOwnership writes the new owners of rows that are locked under a new epoch, the
// phase, and the end of the rollback window once nothing is moved any more.
func (w *window) moveOwnership(ctx context.Context, tx pgx.Tx, owners []store.Ownership, epoch int64, d Direction) error {
	for _, o := range owners {
		o.Owner, o.Epoch = d.settledOn(o.Database), epoch
		if err := store.SaveOwnership(ctx, tx, w.cfg.migration(), o); err != nil {
			return err
		}
	}
	all, err := store.LoadOwnership(ctx, tx, w.cfg.migration())
	if err != nil {
		return err
	}
	phase := phaseOf(all)
	if phase == migrate.RolledBack {
		if err := store.SetWindowEnd(ctx, tx, w.cfg.migration(), nil); err != nil {
			return err
		}
	}
	return store.SetPhase(ctx, tx, w.cfg.migration(), phase)
}
