package journey

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// place asks the server which shard each workspace belongs to: the partition of a table
// PARTITION BY HASH that it falls into.
func (w *world) place(writers []*writer) {
	w.t.Helper()
	var keys []string
	for _, x := range writers {
		keys = append(keys, x.workspaces...)
	}
	places := w.placement(keys)
	for _, x := range writers {
		x.places = places
	}
}

func (w *world) placement(keys []string) map[string]int {
	w.t.Helper()
	var ddl strings.Builder
	ddl.WriteString("CREATE TEMP TABLE place (id uuid) PARTITION BY HASH (id);")
	for i := range w.home {
		fmt.Fprintf(&ddl, "CREATE TEMP TABLE place_%d PARTITION OF place FOR VALUES WITH (MODULUS %d, REMAINDER %d);", i, len(w.home), i)
	}
	places := map[string]int{}
	w.on(w.sourceDSN(), func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, ddl.String()); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "INSERT INTO place SELECT unnest($1::uuid[])", keys); err != nil {
			return err
		}
		return read(ctx, conn, "SELECT id, substring(tableoid::regclass::text FROM 'place_([0-9]+)$') FROM place", func(v []string) (err error) {
			places[v[0]], err = strconv.Atoi(v[1])
			return err
		})
	})
	return places
}
