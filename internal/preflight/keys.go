package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// keys: rows without a key, counted; the spec says what becomes of them.
func keys(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	for _, t := range s.Layout.Tables {
		if t.Key == nil || t.Derived() || t.Key.NotNull {
			continue
		}
		column := postgres.Ident(t.Key.Name)
		var n int64
		if err := s.Source.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS NULL", t.QualifiedSource(), column)).Scan(&n); err != nil {
			return nil, err
		}
		found = append(found, strays("key.null", t, t.Name()+"."+t.Key.Name, n, "rows have no key", t.Spec.NullKeys,
			fmt.Sprintf("SELECT * FROM %s WHERE %s IS NULL;", t.QualifiedSource(), column))...)
	}
	return found, nil
}

// orphans: rows of derived tables whose parent, or its key, is not there.
func orphans(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	for _, t := range s.Layout.Tables {
		if !t.Derived() || t.Key == nil {
			continue
		}
		joins, key := t.KeyFrom("t")
		from := fmt.Sprintf("FROM %s AS t %s WHERE %s IS NULL", t.QualifiedSource(), joins, key)
		var n int64
		if err := s.Source.QueryRow(ctx, "SELECT count(*) "+from).Scan(&n); err != nil {
			return nil, err
		}
		found = append(found, strays("key.orphan", t, t.Name()+"."+t.Via.Name, n, "rows have no parent with a key", t.Spec.Orphans, "SELECT t.* "+from+";")...)
	}
	return found, nil
}

func strays(id string, t *layout.Table, object string, n int64, what string, policy migrate.Stray, look string) []migrate.Finding {
	message := fmt.Sprintf("%d %s", n, what)
	switch {
	case n == 0:
		return nil
	case policy.Policy == "skip":
		return []migrate.Finding{warning(id, object, message+"; the spec says that they are not moved", look)}
	case policy.Policy == "shard":
		return []migrate.Finding{info(id, object, fmt.Sprintf("%s; the spec sends them to shard %d", message, policy.Shard))}
	}
	return []migrate.Finding{blocking(id, object, message+"; mend them, or say in the spec what becomes of them", look)}
}
