package fence

import (
	"context"
	_ "embed" // the query
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// State is what the catalog says of the triggers that make up one fence.
type State string

// The states. Only Enabled forbids anything for certain.
const (
	Missing  State = "missing"  // there are none
	Disabled State = "disabled" // all are there, none fires
	Enabled  State = "enabled"  // all are there and fire always
	Mixed    State = "mixed"    // neither
)

//go:embed triggers.sql
var triggersSQL string

// trigger is one of a fence's triggers, on one relation.
type trigger struct {
	name, relation string // relation is quoted; "" if it does not exist
	enabled        string // tgenabled; "" if the trigger is missing
}

// loadTriggers looks for triggers of the given names on tables (quoted) and all
// their partitions, as they are now.
func loadTriggers(ctx context.Context, q postgres.Querier, tables, names []string) ([]trigger, error) {
	rows, err := q.Query(ctx, triggersSQL, tables, names)
	if err != nil {
		return nil, fmt.Errorf("read fences from the catalog: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t trigger, err error) {
		err = r.Scan(&t.name, &t.relation, &t.enabled)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read fences from the catalog: %w", err)
	}
	return out, nil
}

func stateOf(triggers []trigger, names ...string) State {
	seen := map[string]int{}
	all := 0
	for _, t := range triggers {
		for _, name := range names {
			if t.name == name {
				seen[t.enabled]++
				all++
			}
		}
	}
	switch all {
	case 0, seen[""]:
		return Missing
	case seen["D"]:
		return Disabled
	case seen["A"]:
		return Enabled
	}
	return Mixed
}

// SourceStates gives the state of each database's fence on the source.
func SourceStates(ctx context.Context, q postgres.Querier, l *layout.Layout) (map[string]State, error) {
	var names []string
	for _, d := range l.Spec.Databases {
		names = append(names, sourceNames(l, d.Name)...)
	}
	triggers, err := loadTriggers(ctx, q, SourceTables(l), names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]State, len(l.Spec.Databases))
	for _, d := range l.Spec.Databases {
		out[d.Name] = stateOf(triggers, sourceNames(l, d.Name)...)
	}
	return out, nil
}

func sourceNames(l *layout.Layout, database string) []string {
	k, m := place(l, database), l.Spec.Migration
	return []string{logschema.FenceTrigger(m, k), logschema.FenceTruncateTrigger(m, k)}
}

// SourceTables are the quoted names of the sharded tables on the source: what a
// switch locks.
func SourceTables(l *layout.Layout) []string {
	var out []string
	for _, t := range l.Tables {
		if !t.Everywhere() {
			out = append(out, t.QualifiedSource())
		}
	}
	return out
}

// DatabaseTables are the quoted names of the sharded tables of a database, at all
// its locations.
func DatabaseTables(l *layout.Layout, database string) []string {
	return databaseTables(l, database, func(t *layout.Table) bool { return !t.Everywhere() })
}

// EverywhereTables are the quoted names of the everywhere tables of a database.
func EverywhereTables(l *layout.Layout, database string) []string {
	return databaseTables(l, database, (*layout.Table).Everywhere)
}

func databaseTables(l *layout.Layout, database string, want func(*layout.Table) bool) []string {
	var out []string
	for _, t := range l.Tables {
		if !want(t) {
			continue
		}
		out = append(out, l.Targets(t, database)...)
	}
	return out
}

// DatabaseState is what stands on a database.
type DatabaseState struct {
	Closed     State // of the sharded tables
	Guard      State // of the sharded tables; Missing before the copy is finished and with one shard
	Everywhere State // closed fence of the everywhere tables; Missing if there are none
}

// ReadDatabase reads the state of a database's fences.
func ReadDatabase(ctx context.Context, q postgres.Querier, l *layout.Layout, database string) (DatabaseState, error) {
	closed, guard := logschema.ClosedTrigger(l.Spec.Migration), logschema.GuardTrigger(l.Spec.Migration)
	sharded, err := loadTriggers(ctx, q, DatabaseTables(l, database), []string{closed, guard})
	if err != nil {
		return DatabaseState{}, err
	}
	everywhere, err := loadTriggers(ctx, q, EverywhereTables(l, database), []string{closed})
	if err != nil {
		return DatabaseState{}, err
	}
	return DatabaseState{Closed: stateOf(sharded, closed), Guard: stateOf(sharded, guard), Everywhere: stateOf(everywhere, closed)}, nil
}

// Hits is how many writes fences and guards have refused since they were made.
func Hits(ctx context.Context, q postgres.Querier, migration string) (int64, error) {
	var n int64
	sql := "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM " + function(logschema.FenceHits(migration))
	if err := q.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("read fence hits: %w", err)
	}
	return n, nil
}
