package fence

import (
	"context"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Enable raises the source's fences of databases, inside a transaction that holds
// SHARE ROW EXCLUSIVE on the tables. A fence that is not whole is refused.
func Enable(ctx context.Context, tx postgres.Querier, l *layout.Layout, databases ...string) error {
	return set(ctx, tx, l, databases, "ENABLE ALWAYS")
}

// Disable takes the source's fences of databases down, inside such a transaction.
func Disable(ctx context.Context, tx postgres.Querier, l *layout.Layout, databases ...string) error {
	return set(ctx, tx, l, databases, "DISABLE")
}

func set(ctx context.Context, tx postgres.Querier, l *layout.Layout, databases []string, state string) error {
	var names []string
	for _, d := range databases {
		names = append(names, sourceNames(l, d)...)
	}
	triggers, err := loadTriggers(ctx, tx, SourceTables(l), names)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if t.enabled == "" {
			return migrate.Refuse("fence.incomplete", t.relation, "the source lacks trigger "+t.name, "run shardctl install, which adds what lacks")
		}
	}
	if _, err := tx.Exec(ctx, alter(triggers, state)); err != nil {
		return fmt.Errorf("%s fences on the source: %w", strings.ToLower(state), err)
	}
	return nil
}

// alter is one ALTER TABLE a relation. ONLY, as each relation is named: whether
// the state recurses to partitions differs between versions.
func alter(triggers []trigger, state string) string {
	var b strings.Builder
	for i, t := range triggers {
		if i == 0 || triggers[i-1].relation != t.relation {
			if i > 0 {
				b.WriteString(";\n")
			}
			b.WriteString("ALTER TABLE ONLY " + t.relation)
		} else {
			b.WriteString(",")
		}
		b.WriteString(" " + state + " TRIGGER " + postgres.Ident(t.name))
	}
	return b.String()
}
