package moved

import (
	"context"
	_ "embed" // the query
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed others.sql
var othersSQL string

// Check refuses, with all reasons at once, if the moved rows may not be removed from
// the source. The session is an applier's (postgres.BecomeApplier), replica what that
// gave: it decides which triggers would fire.
func Check(ctx context.Context, source postgres.Querier, l *layout.Layout, replica bool) error {
	failures, err := others(ctx, source, l, replica)
	if err != nil {
		return err
	}
	states, err := fence.SourceStates(ctx, source, l)
	if err != nil {
		return err
	}
	for _, d := range l.Spec.Databases {
		if states[d.Name] != fence.Enabled {
			failures = append(failures, migrate.Refuse("drop.fence", "source", fmt.Sprintf("the fence of %s is %s: rows may have been written here since", d.Name, states[d.Name]),
				"look at what was written, then enable its triggers"))
		}
	}
	keyless, err := keyless(ctx, source, l)
	if err != nil {
		return err
	}
	if failures = append(failures, keyless...); len(failures) > 0 {
		return failures
	}
	return nil
}

// others are the things beyond the sharded tables that a TRUNCATE would reach.
func others(ctx context.Context, q postgres.Querier, l *layout.Layout, replica bool) (failures migrate.Failures, err error) {
	fires := []string{"A", "O"}
	if replica {
		fires = []string{"A", "R"}
	}
	rows, err := q.Query(ctx, othersSQL, fence.SourceTables(l), fires, logschema.Prefix(l.Spec.Migration))
	if err != nil {
		return nil, fmt.Errorf("look for what refers to the moved tables: %w", err)
	}
	var kind, name, relation string
	_, err = pgx.ForEachRow(rows, []any{&kind, &name, &relation}, func() error {
		failures = append(failures, reaches(kind, name, relation))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what refers to the moved tables: %w", err)
	}
	return failures, nil
}

func reaches(kind, name, relation string) *migrate.Failure {
	switch kind {
	case "foreign_key":
		return migrate.Refuse("drop.foreign_key", relation, "foreign key "+name+" refers to it, which is not among the sharded tables", "drop that foreign key, then run the command again")
	case "trigger":
		return migrate.Refuse("drop.trigger", relation, "trigger "+name+" would fire at the TRUNCATE", "disable it, then run the command again")
	default:
		return migrate.Refuse("drop.publication", relation, "subscribers of publication "+name+" would empty their copies too",
			"take the table out of it, or leave truncate out of its publish parameter, then run the command again")
	}
}

// keyless finds rows that were left to the source, by the spec's word.
func keyless(ctx context.Context, q postgres.Querier, l *layout.Layout) (failures migrate.Failures, err error) {
	for _, t := range l.Tables {
		if t.Everywhere() || t.NoKey.Policy != "skip" {
			continue
		}
		joins, key := t.KeyFrom("t")
		from := fmt.Sprintf("FROM %s AS t %s WHERE %s IS NULL", t.QualifiedSource(), joins, l.ShardSQL(t, key))
		var n int64
		if err := q.QueryRow(ctx, "SELECT count(*) "+from).Scan(&n); err != nil {
			return nil, fmt.Errorf("count rows of %s without a key: %w", t.Name(), err)
		}
		if n > 0 {
			failures = append(failures, migrate.Refuse("drop.keyless_rows", t.Name(), fmt.Sprintf("%d rows without a key are here only: they were not moved", n),
				"copy what is needed elsewhere and delete them: SELECT t.* "+from))
		}
	}
	return failures, nil
}
