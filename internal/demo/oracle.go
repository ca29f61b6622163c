package demo

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/placement"
)

// verdict is what the comparison found.
type verdict struct {
	lost, doubled, misplaced int
	examples                 []string
}

func (v *verdict) add(count *int, format string, args ...any) {
	*count++
	if len(v.examples) < 5 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// found is one row where it lies.
type found struct {
	row
	schema string
}

// compare reads every row of every location and holds the ledger against it.
// Nothing of shardctl is used: where a workspace belongs is asked of a table that
// the server partitions by hash.
func (w *world) compare(ctx context.Context, book *ledger) (verdict, error) {
	places, err := w.placement(ctx, book)
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	seen := map[uuid.UUID]int{}
	for i, target := range w.targets {
		conn, err := session(ctx, target.DSN("postgres"))
		if err != nil {
			return v, err
		}
		err = w.judge(ctx, conn, i, book, places, seen, &v)
		if closeErr := conn.Close(ctx); err == nil {
			err = closeErr
		}
		if err != nil {
			return v, err
		}
	}
	book.mu.Lock()
	defer book.mu.Unlock()
	for id, r := range book.rows {
		if seen[id] == 0 && !book.unsure[id] {
			v.add(&v.lost, "%s %s is nowhere", r.table, id)
		}
	}
	return v, nil
}

// judge compares one database's rows.
func (w *world) judge(ctx context.Context, conn *pgx.Conn, database int, book *ledger, places map[uuid.UUID]int, seen map[uuid.UUID]int, v *verdict) error {
	first, last := database*(w.shards/databases), (database+1)*(w.shards/databases)
	if database == databases-1 {
		last = w.shards
	}
	for shard := first; shard < last; shard++ {
		rows, err := readShard(ctx, conn, fmt.Sprintf("shard_%03d", shard))
		if err != nil {
			return err
		}
		for _, f := range rows {
			book.check(f, shard, places, seen, v)
		}
	}
	return nil
}

func readShard(ctx context.Context, conn *pgx.Conn, schema string) ([]found, error) {
	s := pgx.Identifier{schema}.Sanitize()
	sql := fmt.Sprintf(`SELECT 'workspace', id::text, NULL::text, body, version FROM %[1]s.workspace UNION ALL SELECT 'block', id::text, workspace_id::text, body, version FROM %[1]s.block
	UNION ALL SELECT 'comment', id::text, block_id::text, body, version FROM %[1]s.comment`, s)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", schema, err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (f found, err error) {
		var id string
		var parent *string
		if err = r.Scan(&f.table, &id, &parent, &f.body, &f.version); err != nil {
			return f, err
		}
		f.schema, f.id = schema, uuid.MustParse(id)
		if parent != nil {
			f.parent = uuid.MustParse(*parent)
		}
		return f, nil
	})
}

// check judges one row that was found in a shard.
func (l *ledger) check(f found, shard int, places map[uuid.UUID]int, seen map[uuid.UUID]int, v *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen[f.id]++
	if seen[f.id] > 1 {
		v.add(&v.doubled, "%s %s is in %s too", f.table, f.id, f.schema)
		return
	}
	want, known := l.rows[f.id]
	switch {
	case l.unsure[f.id]:
	case !known:
		v.add(&v.doubled, "%s %s in %s was deleted, or never written", f.table, f.id, f.schema)
	case want != f.row:
		v.add(&v.lost, "%s %s in %s has %q version %d instead of %q version %d", f.table, f.id, f.schema, f.body, f.version, want.body, want.version)
	}
	if belongs, known := places[l.workspaceOf(f.row)]; known && belongs != shard {
		v.add(&v.misplaced, "%s %s is in %s and belongs in shard_%03d", f.table, f.id, f.schema, belongs)
	}
}

// workspaceOf is the key of a row, by the ledger; the caller holds the lock.
func (l *ledger) workspaceOf(r row) uuid.UUID {
	switch r.table {
	case "workspace":
		return r.id
	case "block":
		return r.parent
	default:
		return l.rows[r.parent].parent
	}
}

// placement asks the server which partition each workspace's key falls into.
func (w *world) placement(ctx context.Context, book *ledger) (map[uuid.UUID]int, error) {
	conn, err := session(ctx, w.source.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	book.mu.Lock()
	var ids []string
	for id, r := range book.rows {
		if r.table == "workspace" {
			ids = append(ids, id.String())
		}
	}
	book.mu.Unlock()
	shards, err := placement.OfUUIDs(ctx, conn, w.shards, ids)
	if err != nil {
		return nil, err
	}
	places := map[uuid.UUID]int{}
	for id, shard := range shards {
		places[uuid.MustParse(id)] = shard
	}
	return places, nil
}
