package layout

import (
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Locations are the places of a table's rows on a database: one a shard where
// each has a schema of its own, else one; of an everywhere table always one.
func (l *Layout) Locations(t *Table, database string) []migrate.Location {
	return l.Spec.TableLocations(t.Spec, database)
}

// LocationOf is where the rows of a shard live. It is not for everywhere tables.
func (l *Layout) LocationOf(_ *Table, shard int) migrate.Location {
	return l.Spec.LocationOf(shard)
}

// QualifiedTarget is the quoted name of a table at a location.
func (l *Layout) QualifiedTarget(t *Table, loc migrate.Location) string {
	return postgres.Table(loc.Schema, t.TargetName())
}

// Targets are the quoted names of one table at all its locations on a database.
func (l *Layout) Targets(t *Table, database string) []string {
	locations := l.Locations(t, database)
	out := make([]string, len(locations))
	for i, loc := range locations {
		out[i] = l.QualifiedTarget(t, loc)
	}
	return out
}

// AllTargets are those of all tables.
func (l *Layout) AllTargets(database string) (out []string) {
	for _, t := range l.Tables {
		out = append(out, l.Targets(t, database)...)
	}
	return out
}

// QualifiedSource is the quoted name of a table on the source.
func (t *Table) QualifiedSource() string {
	return postgres.Table(t.Spec.Name.Schema, t.Spec.Name.Name)
}
