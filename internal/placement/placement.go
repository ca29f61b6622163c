package placement

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// OfUUIDs gives the shard, of so many, of each key of type uuid. It makes a temporary
// table of the session.
func OfUUIDs(ctx context.Context, conn *pgx.Conn, shards int, keys []string) (map[string]int, error) {
	var ddl strings.Builder
	ddl.WriteString("DROP TABLE IF EXISTS pg_temp.place; CREATE TEMP TABLE place (id uuid) PARTITION BY HASH (id);")
	for i := range shards {
		fmt.Fprintf(&ddl, "CREATE TEMP TABLE place_%d PARTITION OF place FOR VALUES WITH (MODULUS %d, REMAINDER %d);", i, shards, i)
	}
	if _, err := conn.Exec(ctx, ddl.String()); err != nil {
		return nil, fmt.Errorf("make the table that places keys: %w", err)
	}
	if _, err := conn.Exec(ctx, "INSERT INTO place SELECT unnest($1::text[])::uuid", keys); err != nil {
		return nil, fmt.Errorf("place keys: %w", err)
	}
	const sql = "SELECT id::text, substring(tableoid::regclass::text FROM 'place_([0-9]+)$')::int FROM place"
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("place keys: %w", err)
	}
	places := map[string]int{}
	var id string
	var shard int
	_, err = pgx.ForEachRow(rows, []any{&id, &shard}, func() error { places[id] = shard; return nil })
	if err != nil {
		return nil, fmt.Errorf("place keys: %w", err)
	}
	return places, nil
}
