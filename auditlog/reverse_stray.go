package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// RereadStrays hands every stray write of the databases to their own logs, so that the
// way back reads those keys again and the owner's rows win. The databases must own their
// shards, and must have been brought forward before: a stray write is known from then on.
func (a *Applier) RereadStrays(ctx context.Context, databases []string) error {
	dbs, err := a.find(databases)
	if err != nil {
		return err
	}
	r := a.borrow()
	defer a.giveBack(r)
	source, err := r.mark.get(ctx)
	if err != nil {
		return err
	}
	for _, db := range dbs {
		if err := db.rereadStrays(ctx, source); err != nil {
			return migrate.At(db.name(), err)
		}
	}
	return nil
}

// strays are the keys of one table, and the rows of shardctl.stray that hold them.
type strays struct {
	ids  []int64
	keys []Reread
}

func (db *database) rereadStrays(ctx context.Context, source *pgx.Conn) error {
	found, err := db.readStrays(ctx, source)
	if err != nil {
		return err
	}
	db.rev.mu.Lock()
	defer db.rev.mu.Unlock()
	for no, s := range found {
		conn, err := db.rev.read.mark.get(ctx)
		if err != nil {
			return err
		}
		side := DatabaseSide(db.a.cfg.Layout, db.name())
		err = postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			return side.AppendReread(ctx, tx, db.a.plan.tables[no-1].Table, db.name(), s.keys)
		})
		if err != nil {
			return err
		}
		// After a crash in between they are handed over twice, which changes nothing.
		if _, err := source.Exec(ctx, "UPDATE shardctl.stray SET reread_at = clock_timestamp() WHERE id = ANY($1)", s.ids); err != nil {
			return fmt.Errorf("note stray writes as handed over: %w", err)
		}
	}
	return nil
}

// readStrays reads those that were not handed over, by table.
func (db *database) readStrays(ctx context.Context, source *pgx.Conn) (map[int]*strays, error) {
	const sql = `SELECT id, table_no, ARRAY(SELECT jsonb_array_elements_text(key)) FROM shardctl.stray WHERE migration = $1 AND database = $2 AND reread_at IS NULL ORDER BY id`
	rows, err := source.Query(ctx, sql, db.a.migration(), db.name())
	if err != nil {
		return nil, fmt.Errorf("read stray writes: %w", err)
	}
	found := map[int]*strays{}
	var id int64
	var no int
	var key []string
	_, err = pgx.ForEachRow(rows, []any{&id, &no, &key}, func() error {
		s := found[no]
		if s == nil {
			s = &strays{}
			found[no] = s
		}
		s.ids, s.keys = append(s.ids, id), append(s.keys, Reread{Key: key})
		key = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read stray writes: %w", err)
	}
	return found, nil
}
