package preflight

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/migrate"
)

// otherUsers: no other migration has our tables; publications of them are told of,
// since subscribers stop seeing changes after a cutover.
func otherUsers(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	var schemas, names []string
	for _, t := range s.Spec.Tables {
		schemas, names = append(schemas, t.Name.Schema), append(names, t.Name.Name)
	}
	var known bool
	if err := s.Source.QueryRow(ctx, "SELECT to_regclass('shardctl.captured') IS NOT NULL").Scan(&known); err != nil {
		return nil, err
	}
	if known {
		const sql = `SELECT c.migration, format('%I.%I', schema_name, table_name) FROM shardctl.captured c JOIN unnest($2::text[], $3::text[]) AS t(s, r) ON schema_name = s AND table_name = r
		WHERE c.migration <> $1 AND EXISTS (SELECT FROM shardctl.migration m WHERE m.name = c.migration AND m.phase <> 'aborted')`
		rows, err := s.Source.Query(ctx, sql, s.Spec.Migration, schemas, names)
		if err != nil {
			return nil, err
		}
		var migration, table string
		if _, err = pgx.ForEachRow(rows, []any{&migration, &table}, func() error {
			found = append(found, blocking("table.other_migration", table, fmt.Sprintf("migration %s has this table already", migration)))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	publications, err := texts(ctx, s.Source, `SELECT format('%s (table %I.%I)', pubname, schemaname, tablename) FROM pg_publication_tables JOIN unnest($1::text[], $2::text[]) AS t(s, r) ON schemaname = s AND tablename = r`, schemas, names)
	if err != nil {
		return nil, err
	}
	for _, p := range publications {
		found = append(found, warning("table.published", "source", "publication "+p+": its subscribers see the rollback copy's changes after a cutover, and none once the migration is complete"))
	}
	return found, nil
}
