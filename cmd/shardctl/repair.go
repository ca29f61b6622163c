package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// repairer hands keys of differences to the log that the owner's side writes.
func (s *session) repairer(l *layout.Layout) verify.Repairer { return logRepairer{s: s, l: l} }

type logRepairer struct {
	s *session
	l *layout.Layout
}

// AppendReread appends keys to the source's log, or to the database's own where
// that owns the table's rows.
func (r logRepairer) AppendReread(ctx context.Context, database string, name migrate.TableName, keys ...[]string) error {
	t := r.l.Table(name)
	if t == nil {
		return fmt.Errorf("re-read keys of %s: not a table of this migration", name)
	}
	owner, err := r.owner(ctx, database)
	if err != nil {
		return err
	}
	if owner == store.OwnerSource || t.Everywhere() {
		return r.append(ctx, r.s.source, auditlog.SourceSide(r.l), t, database, keys, "")
	}
	d, _ := r.s.spec.Database(database)
	conn, err := postgres.Connect(ctx, postgres.Target{Name: database, DSN: d.DSN}, "verify repair")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	for _, loc := range r.l.Locations(t, database) {
		// Where the row is, or is not, is the next tick's to find out: each location is read.
		if err := r.append(ctx, conn, auditlog.DatabaseSide(r.l, database), t, database, keys, loc.Schema); err != nil {
			return err
		}
	}
	return nil
}

func (r logRepairer) owner(ctx context.Context, database string) (string, error) {
	owners, err := r.s.owners(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range owners {
		if o.Database == database {
			return o.Owner, nil
		}
	}
	return "", fmt.Errorf("owner of %s: %w", database, store.ErrNotFound)
}

func (r logRepairer) append(ctx context.Context, conn *pgx.Conn, side auditlog.Side, t *layout.Table, database string, keys [][]string, location string) error {
	rereads := make([]auditlog.Reread, len(keys))
	for i, k := range keys {
		rereads[i] = auditlog.Reread{Key: k, Location: location}
	}
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return side.AppendReread(ctx, tx, t, database, rereads)
	})
}
