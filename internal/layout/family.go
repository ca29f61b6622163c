package layout

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// CopiedFamily reads the family of the migration's keys from a database's tables, for
// when the source cannot be asked; "" with one shard and no key.
func CopiedFamily(ctx context.Context, q postgres.Querier, spec *migrate.Spec, database string) (string, error) {
	for _, t := range spec.Tables {
		places := spec.TableLocations(t, database)
		if t.Everywhere || t.Key.Column == "" || len(places) == 0 {
			continue
		}
		name := migrate.TableName{Schema: places[0].Schema, Name: t.TargetName()}
		tables, err := catalog.Load(ctx, q, []migrate.TableName{name})
		if err != nil {
			return "", err
		}
		c := tables[name].Column(t.Key.Column)
		if c == nil || families[c.BaseType] == "" {
			return "", fmt.Errorf("key %s of %s on %s: no such column, or of a type that does not hash", t.Key.Column, name, database)
		}
		return families[c.BaseType], nil
	}
	return "", nil
}
