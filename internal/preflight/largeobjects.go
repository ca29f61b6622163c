package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// holdsLargeObjects are the types that may refer to large objects: how the numbers of
// a column are compared, and what holds the contents in their place.
var holdsLargeObjects = map[string]struct{ among, typ, content string }{
	"oid":   {"t.%[2]s", "bytea", "lo_get(%[3]s)"},
	"oid[]": {"ANY (t.%[2]s)", "bytea[]", "ARRAY(SELECT lo_get(o) FROM unnest(%[3]s) o)"},
}

// largeObjects: a large object is no part of its row, triggers do not see it change, and
// a copied number would name nothing, or something else.
func largeObjects(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	for _, t := range s.Layout.Tables {
		for _, c := range t.Source.Columns {
			how, may := holdsLargeObjects[c.BaseType]
			if !may {
				continue
			}
			column := postgres.Ident(c.Name)
			var refers bool
			sql := fmt.Sprintf("SELECT EXISTS (SELECT FROM %s t JOIN pg_largeobject_metadata m ON m.oid = "+how.among+")", t.QualifiedSource(), column)
			if err := s.Source.QueryRow(ctx, sql).Scan(&refers); err != nil {
				return nil, fmt.Errorf("look for large objects of %s: %w", t.Name(), err)
			}
			if refers {
				found = append(found, blocking("column.large_object", t.Name()+"."+c.Name,
					"its rows refer to large objects, which are not copied, and whose changes no trigger sees",
					fmt.Sprintf("ALTER TABLE %s ADD COLUMN content %s; UPDATE %[1]s SET content = "+how.content+", %[3]s = NULL;", t.QualifiedSource(), how.typ, column)))
			}
		}
	}
	return found, nil
}
