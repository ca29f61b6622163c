package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// targets: no location has a table of ours already, unless prepare made it.
func targets(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT format('%I.%I', n.nspname, c.relname) FROM unnest($1::text[], $2::text[]) AS t(s, r) JOIN pg_namespace n ON n.nspname = t.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.r ORDER BY 1`
	for _, d := range s.Spec.Databases {
		conn := s.Databases[d.Name]
		if conn == nil {
			continue
		}
		var schemas, names []string
		for _, t := range s.Layout.Tables {
			for _, loc := range s.Layout.Locations(t, d.Name) {
				schemas, names = append(schemas, loc.Schema), append(names, t.TargetName())
			}
		}
		ours, err := preparedHere(ctx, s, d.Name)
		if err != nil || ours {
			if err != nil {
				return nil, err
			}
			continue
		}
		there, err := texts(ctx, conn, sql, schemas, names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		for _, table := range there {
			found = append(found, blocking("target.not_empty", d.Name+"."+table, "the table is there already and is not ours; drop or rename it, or choose another schema"))
		}
	}
	return found, nil
}

// preparedHere reports whether this migration has a control row on the database.
func preparedHere(ctx context.Context, s *Survey, database string) (ours bool, err error) {
	conn := s.Databases[database]
	if err = conn.QueryRow(ctx, "SELECT to_regclass('shardctl.control') IS NOT NULL").Scan(&ours); err != nil || !ours {
		return false, err
	}
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM shardctl.control WHERE migration = $1)", s.Spec.Migration).Scan(&ours)
	return ours, err
}
