package moved

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// lockPatience bounds the tries for the tables' locks; each gives way to the
// application after half a second.
const lockPatience = 30 * time.Second

// Drop removes the moved rows from the source and notes it, in one transaction. The
// session must not be used for anything else: it becomes the migration's applier. Rows
// that the source still owns refuse it (exit 4), and so does what Check finds.
func Drop(ctx context.Context, conn *pgx.Conn, l *layout.Layout) error {
	replica, err := postgres.BecomeApplier(ctx, conn, l.Spec.Migration)
	if err != nil {
		return err
	}
	tables := fence.SourceTables(l)
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := postgres.PreLock(ctx, tx, tables); err != nil {
			return err
		}
		if err := owned(ctx, tx, l.Spec); err != nil {
			return err
		}
		if err := postgres.UpgradeLock(ctx, tx, "ACCESS EXCLUSIVE", tables, time.Now().Add(lockPatience)); err != nil {
			return err
		}
		if err := Check(ctx, tx, l, replica); err != nil {
			return err
		}
		// All at once: they refer to one another.
		if _, err := tx.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", ")); err != nil {
			return fmt.Errorf("remove the moved rows from the source: %w", err)
		}
		return store.NoteSourceDropped(ctx, tx, l.Spec.Migration)
	})
}

// owned locks the ownership rows and refuses if the source owns any shard.
func owned(ctx context.Context, tx pgx.Tx, spec *migrate.Spec) error {
	var names []string
	for _, d := range spec.Databases {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		o, err := store.ChangeOwnership(ctx, tx, spec.Migration, name)
		if err != nil {
			return err
		}
		if o.Owner == store.OwnerSource && len(o.Shards) > 0 {
			return migrate.Refuse("drop.source_owns", name, "its shards are owned by the source", "run shardctl status")
		}
	}
	return nil
}
