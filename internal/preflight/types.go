package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// types: extensions whose types the tables use are on every database: prepare
// copies types and functions, but an extension is an operator's decision.
func types(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const needed = `SELECT DISTINCT e.extname || ' in ' || quote_ident(n.nspname) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type el ON el.oid = t.typelem AND t.typelem <> 0 LEFT JOIN pg_type b ON b.oid = t.typbasetype AND t.typbasetype <> 0
	JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid IN (t.oid, el.oid, b.oid) AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_namespace n ON n.oid = e.extnamespace
	WHERE a.attrelid = ANY($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1`
	const there = `SELECT extname || ' in ' || quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace`
	want, err := texts(ctx, s.Source, needed, s.oids())
	if err != nil {
		return nil, err
	}
	for _, d := range s.Spec.Databases {
		conn := s.Databases[d.Name]
		if conn == nil || len(want) == 0 {
			continue
		}
		have, err := texts(ctx, conn, there)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		has := map[string]bool{}
		for _, h := range have {
			has[h] = true
		}
		for _, w := range want {
			if !has[w] {
				var name, schema string
				if _, err := fmt.Sscanf(w, "%s in %s", &name, &schema); err != nil {
					schema = "public"
				}
				found = append(found, blocking("extension.missing", d.Name, "extension "+w+" is not there",
					fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s; CREATE EXTENSION %q SCHEMA %s;", schema, name, schema)))
			}
		}
	}
	return found, nil
}
