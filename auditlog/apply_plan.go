package auditlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
)

// Codes that stand in the place of a location's number in a staged row.
const (
	nowhere  = -1 // gone, or skipped by the spec's policy
	anywhere = -2 // old location unknown: every location of every database
	refused  = -3 // has no key, and the spec refuses that
	barred   = -4 // set on the written side: must not be applied
)

// plan is what the layout means to the applier. A location is a number: the
// shard where each has a schema of its own, else the database's place.
type plan struct {
	layout  *layout.Layout
	tables  []*tablePlan // in the order of the spec
	order   []*tablePlan // everywhere tables first, parents before children
	home    []int        // location -> database's place in the spec
	schemas []string     // location -> schema
	ofShard []int        // shard -> location
}

// tablePlan is one table with what a copy of its rows needs.
type tablePlan struct {
	*layout.Table
	columns []catalog.Column
	format  rowstream.Format
	keyed   bool // rows are at the location of their key; else at the only one
}

func newPlan(l *layout.Layout) *plan {
	p := &plan{layout: l}
	spec := l.Spec
	place := map[string]int{}
	for i, d := range spec.Databases {
		place[d.Name] = i
	}
	perShard := spec.Shards.SchemaPerShard()
	if !perShard {
		for i := range spec.Databases {
			p.home, p.schemas = append(p.home, i), append(p.schemas, spec.Shards.Schema)
		}
	}
	for shard := range spec.Shards.Count {
		db := place[spec.Shards.DatabaseOf(shard)]
		if perShard {
			p.home, p.schemas = append(p.home, db), append(p.schemas, spec.Shards.SchemaName(shard))
			db = shard
		}
		p.ofShard = append(p.ofShard, db)
	}
	for _, t := range l.Tables {
		tp := &tablePlan{Table: t, columns: t.Copied(), format: formatOf(t), keyed: !t.Everywhere() && spec.Shards.Count > 1}
		p.tables = append(p.tables, tp)
	}
	p.order = slices.Clone(p.tables)
	slices.SortStableFunc(p.order, func(a, b *tablePlan) int { return a.rank() - b.rank() })
	return p
}

// rank orders tables so that parents come first.
func (t *tablePlan) rank() int {
	if t.Everywhere() {
		return 0
	}
	return 1 + len(t.Chain())
}

// formatOf is binary where every value means the same on any server.
func formatOf(t *layout.Table) rowstream.Format {
	for _, c := range t.Copied() {
		if !c.BuiltIn {
			return rowstream.Text
		}
	}
	if t.StoreAs != "" && (t.Key == nil || !t.Key.BuiltIn) {
		return rowstream.Text
	}
	return rowstream.Binary
}

// of finds the plan of a layout's table.
func (p *plan) of(t *layout.Table) *tablePlan { return p.tables[t.No-1] }

// only is the location of all rows of a table that has one on each database.
func (p *plan) only(t *tablePlan) int {
	if t.Everywhere() {
		return 0
	}
	return p.ofShard[0]
}

// locations lists the numbers of a database's locations.
func (p *plan) locations(database int) []int {
	var out []int
	for loc, home := range p.home {
		if home == database {
			out = append(out, loc)
		}
	}
	return out
}

// locationSQL turns the SQL of a shard into that of its location.
func (p *plan) locationSQL(shard string) string {
	if p.layout.Spec.Shards.SchemaPerShard() {
		return shard
	}
	return fmt.Sprintf("('{%s}'::int[])[%s + 1]", joinInts(p.ofShard), shard)
}

// rowLocation is the SQL for the location of a key's row; NULL if it has none.
func (p *plan) rowLocation(t *tablePlan, key string) string {
	return p.locationSQL(p.layout.ShardSQL(t.Table, key))
}

func joinInts(ints []int) string {
	out := make([]string, len(ints))
	for i, n := range ints {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ",")
}

// logs are the quoted names of a table's log segments.
func (p *plan) logs(t *layout.Table) []string {
	out := make([]string, logschema.Segments)
	for s := range out {
		out[s] = postgres.Table(logschema.Schema, logschema.Log(p.layout.Spec.Migration, t.No, s))
	}
	return out
}

// allLogs are the segments of all tables.
func (p *plan) allLogs() []string {
	var out []string
	for _, t := range p.tables {
		out = append(out, p.logs(t.Table)...)
	}
	return out
}

// spot is one location of a table on a database.
type spot struct {
	loc   int
	table string // quoted
	name  string // the schema
}

// spots are the places of a table on a database. An everywhere table's one place
// has the number 0.
func (p *plan) spots(t *tablePlan, database int) []spot {
	if t.Everywhere() {
		schema := p.schemaOf(t, database)
		return []spot{{table: postgres.Table(schema, t.TargetName()), name: schema}}
	}
	var out []spot
	for _, loc := range p.locations(database) {
		out = append(out, spot{loc: loc, table: postgres.Table(p.schemas[loc], t.TargetName()), name: p.schemas[loc]})
	}
	return out
}
