package cutover

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// door is one database's transaction that will open or close it. It takes the
// pre-lock before clients are held: an autovacuum on a location would else cost the
// window a deadlock_timeout.
type door struct {
	conn    *pgx.Conn
	tx      pgx.Tx // nil once it was used
	backend postgres.Backend
}

// preLockDatabases opens every database's door.
func (w *window) preLockDatabases(ctx context.Context) error {
	doors := make([]*door, len(w.cfg.Databases))
	err := w.each(ctx, func(ctx context.Context, name string, _ *pgx.Conn) (err error) {
		i := w.place(name)
		doors[i], err = w.openDoor(ctx, w.cfg.Databases[i], name)
		return err
	})
	w.doors = map[string]*door{}
	for i, d := range doors {
		if d != nil {
			w.doors[w.cfg.Databases[i].Name] = d
		}
	}
	return err
}

func (w *window) openDoor(ctx context.Context, target postgres.Target, name string) (*door, error) {
	conn, err := postgres.Connect(ctx, target, "switch")
	if err != nil {
		return nil, err
	}
	d := &door{conn: conn}
	if d.backend, err = postgres.ReadBackend(ctx, conn); err != nil {
		return d, err
	}
	if d.tx, err = conn.Begin(ctx); err != nil {
		return d, fmt.Errorf("begin: %w", err)
	}
	return d, postgres.PreLock(ctx, d.tx, w.tables.database(name))
}

// through runs fn in the database's prepared transaction if it still has one, else
// in one of its own, and commits.
func (w *window) through(ctx context.Context, name string, fn func(pgx.Tx) error) error {
	d := w.doors[name]
	if d == nil || d.tx == nil || d.conn.IsClosed() {
		return postgres.WithTx(ctx, w.databases[name], pgx.TxOptions{}, fn)
	}
	tx := d.tx
	d.tx = nil
	if err := fn(tx); err != nil {
		return errors.Join(err, rollbackTx(ctx, tx))
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// shutDoors gives up the pre-locks that were not used.
func (w *window) shutDoors(ctx context.Context) {
	for _, d := range w.doors {
		postgres.CloseQuietly(ctx, d.conn)
	}
	w.doors = nil
}

// place is a database's place in the configuration.
func (w *window) place(name string) int {
	for i, d := range w.cfg.Databases {
		if d.Name == name {
			return i
		}
	}
	panic("cutover: unknown database " + name)
}
