package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// named are the types whose values are numbers of catalog rows, written as names, with
// the catalog.
var named = map[string]string{
	"regclass": "pg_class", "regtype": "pg_type", "regproc": "pg_proc", "regprocedure": "pg_proc", "regoper": "pg_operator", "regoperator": "pg_operator",
	"regrole": "pg_roles", "regnamespace": "pg_namespace", "regconfig": "pg_ts_config", "regdictionary": "pg_ts_dict", "regcollation": "pg_collation",
}

// objectNames: a row that names an object can be written where the object is, or will
// be made by prepare. What stands in a row only as a number is copied as one.
func objectNames(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	var copied []string
	for _, t := range s.Layout.Tables {
		for _, c := range t.Source.Columns {
			typ := strings.TrimSuffix(c.BaseType, "[]")
			if named[typ] == "" {
				continue
			}
			if copied == nil {
				if copied, err = copiedNames(ctx, s); err != nil {
					return nil, err
				}
			}
			value := "t." + postgres.Ident(c.Name)
			if typ == c.BaseType {
				value = "ARRAY[" + value + "]"
			}
			const own = 16384 // objects of lower numbers are the server's
			sql := fmt.Sprintf(`SELECT DISTINCT n.v::text FROM %s t CROSS JOIN LATERAL unnest(%s) n(v) WHERE n.v::oid >= %d AND n.v::text !~ '^\d+$' AND NOT n.v::text = ANY ($1)`, t.QualifiedSource(), value, own)
			names, err := texts(ctx, s.Source, sql, copied)
			if err != nil {
				return nil, fmt.Errorf("read the names in %s.%s: %w", t.Name(), c.Name, err)
			}
			fix := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %[2]s::%[3]s;", t.QualifiedSource(), postgres.Ident(c.Name), strings.Replace(c.BaseType, typ, "text", 1))
			more, err := s.unknownNames(ctx, t.Name()+"."+c.Name, typ, names, fix)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// unknownNames finds the databases that have no objects of some names.
func (s *Survey) unknownNames(ctx context.Context, column, typ string, names []string, fix string) (found []migrate.Finding, err error) {
	sides, conns := s.sides()
	if len(names) == 0 {
		return nil, nil
	}
	sql := fmt.Sprintf("SELECT v FROM unnest($1::text[]) v WHERE NOT EXISTS (SELECT FROM pg_catalog.%s o WHERE o.oid::%s::text = v) ORDER BY 1", named[typ], typ)
	for i, conn := range conns[1:] {
		unknown, err := texts(ctx, conn, sql, names)
		if err != nil {
			return nil, fmt.Errorf("look for names on %s: %w", sides[i+1], err)
		}
		if len(unknown) > 0 {
			found = append(found, blocking("column.object_name", column,
				fmt.Sprintf("its rows name objects that %s does not have, where they could not be written: %s", sides[i+1], strings.Join(unknown[:min(3, len(unknown))], ", ")), fix))
		}
	}
	return found, nil
}

// copiedNames are the types and functions that prepare makes.
func copiedNames(ctx context.Context, s *Survey) (names []string, err error) {
	b, err := blueprint.Read(ctx, s.Source, s.Layout)
	if err != nil {
		if refusals(err) != nil {
			return []string{}, nil // definitions says so
		}
		return nil, err
	}
	names = []string{}
	for _, n := range slices.Concat(b.Needs, b.Handlers) {
		names = append(names, n.Name)
		if plain, _, isFunction := strings.Cut(n.Name, "("); isFunction {
			names = append(names, plain)
		}
	}
	return names, nil
}
