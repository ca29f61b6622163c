package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// key is a primary key, as text of its columns.
type key []string

// id makes a key usable in maps; no text value holds a zero byte.
func (k key) id() string { return strings.Join(k, "\x00") }

// row is what one side has under a wanted key.
type row struct {
	at      int // ord of its place; 0 on the source
	key     key
	digests []int64
	shard   *int    // by its own key; nil without one
	stored  *string // the shard key that it stores or, on the source, should
	parents []*string
}

func (r *row) equal(o *row) bool { return slices.Equal(r.digests, o.digests) && r.storesAs(o) }

func (r *row) storesAs(o *row) bool {
	return r.stored == nil && o.stored == nil || r.stored != nil && o.stored != nil && *r.stored == *o.stored
}

// lookup reads the rows of keys, for each key in turn: on the source if there are
// no places, else at the places.
func lookup(ctx context.Context, q postgres.Querier, b builder, t *layout.Table, places []place, keys []key, thorough bool) ([][]row, error) {
	found := make([][]row, len(keys))
	rows, err := q.Query(ctx, b.lookup(t, places, thorough), arrays(t, keys)...)
	if err != nil {
		return nil, err
	}
	var ord int64
	var r row
	_, err = pgx.ForEachRow(rows, []any{&ord, &r.at, &r.key, &r.digests, &r.shard, &r.stored, &r.parents}, func() error {
		found[ord-1] = append(found[ord-1], r)
		// Scanning into the same slices would overwrite the row just kept.
		r = row{}
		return nil
	})
	return found, err
}

// arrays turns keys into one array of text for each column.
func arrays(t *layout.Table, keys []key) []any {
	out := make([]any, len(t.PK))
	for i := range t.PK {
		column := make([]string, len(keys))
		for j, k := range keys {
			column[j] = k[i]
		}
		out[i] = column
	}
	return out
}

// touched reports for each key whether the log has an entry beyond a position, or may
// have lost one: it is rotated when the position has moved on, which the caller's is not.
func touched(ctx context.Context, tx pgx.Tx, b builder, t *layout.Table, snapshot string, keys []key) ([]bool, error) {
	out := make([]bool, len(keys))
	var lost bool
	batch := &pgx.Batch{}
	batch.Queue(b.touched(t, running(snapshot)), append([]any{snapshot}, arrays(t, keys)...)...).Query(func(rows pgx.Rows) error {
		var ord int64
		_, err := pgx.ForEachRow(rows, []any{&ord}, func() error { out[ord-1] = true; return nil })
		return err
	})
	b.askRotated(batch, []*layout.Table{t}, snapshot, &lost)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", t.Name(), err)
	}
	for i := range out {
		out[i] = out[i] || lost
	}
	return out, nil
}

// parentTouched adds for each key whether a parent of one of its rows has an entry.
func parentTouched(ctx context.Context, tx pgx.Tx, b builder, t *layout.Table, snapshot string, found [][]row, out []bool) error {
	for depth, parent := range t.Chain() {
		var keys []key
		var owners []int
		for i, rows := range found {
			for _, r := range rows {
				if depth < len(r.parents) && r.parents[depth] != nil {
					keys, owners = append(keys, key{*r.parents[depth]}), append(owners, i)
				}
			}
		}
		if len(keys) == 0 {
			continue
		}
		hit, err := touched(ctx, tx, b, parent, snapshot, keys)
		if err != nil {
			return err
		}
		for j, i := range owners {
			out[i] = out[i] || hit[j]
		}
	}
	return nil
}
