package preflight

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/migrate"
)

// uniques: an index that is unique on the source is unique per location only once
// the rows are apart, unless it holds the shard key.
func uniques(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT i.indexrelid::regclass::text, i.indisexclusion,
	  array(SELECT a.attname::text FROM unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) k JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k)
	FROM pg_index i WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary ORDER BY 1`
	for _, t := range s.Layout.Tables {
		if t.Everywhere() || s.Spec.Shards.Count == 1 {
			continue
		}
		key := t.StoreAs
		if !t.Derived() && t.Key != nil {
			key = t.Key.Name
		}
		rows, err := s.Source.Query(ctx, sql, t.Source.OID)
		if err != nil {
			return nil, err
		}
		var index string
		var exclusion bool
		var columns []string
		if _, err = pgx.ForEachRow(rows, []any{&index, &exclusion, &columns}, func() error {
			if !slices.Contains(columns, key) && (t.Via == nil || !slices.Contains(columns, t.Via.Name)) {
				found = append(found, warning("unique.without_key", index, fmt.Sprintf("unique on %v without the shard key: after the move it holds within a location only", columns)))
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
