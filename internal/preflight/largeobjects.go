package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// largeObjects: a large object is no part of its row, triggers do not see it change, and
// a copied number would name nothing, or something else.
func largeObjects(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const columns = `SELECT attname::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
	WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND (t.oid = 'oid'::regtype OR t.typbasetype = 'oid'::regtype) ORDER BY a.attnum`
	for _, t := range s.Layout.Tables {
		rows, err := s.Source.Query(ctx, columns, t.Source.OID)
		if err != nil {
			return nil, fmt.Errorf("look for large objects: %w", err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("look for large objects: %w", err)
		}
		for _, name := range names {
			var refers bool
			sql := fmt.Sprintf("SELECT EXISTS (SELECT FROM %s t JOIN pg_largeobject_metadata m ON m.oid = t.%s)", t.QualifiedSource(), postgres.Ident(name))
			if err := s.Source.QueryRow(ctx, sql).Scan(&refers); err != nil {
				return nil, fmt.Errorf("look for large objects of %s: %w", t.Name(), err)
			}
			if refers {
				found = append(found, blocking("column.large_object", strings.Join([]string{t.Name(), name}, "."),
					"its rows refer to large objects, which are not copied, and whose changes no trigger sees",
					fmt.Sprintf("ALTER TABLE %s ADD COLUMN content bytea; UPDATE %[1]s SET content = lo_get(%[2]s), %[2]s = NULL;", t.QualifiedSource(), postgres.Ident(name))))
			}
		}
	}
	return found, nil
}
