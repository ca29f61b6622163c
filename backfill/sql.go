package backfill

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/migrate"
)

// tidRange is the first version that scans a range of ctids without reading the
// whole table.
const tidRange = 140000

// tuplesPerPage is the most line pointers a page of 8 kB can hold; a larger page
// holds more, but version 13 with another block size is refused by preflight.
const tuplesPerPage = 291

// query is the SELECT of a chunk, after the routing.
func (c Chunk) query(r *route, version int) string {
	joins, key := c.Table.KeyFrom("x")
	columns := "x." + strings.Join(quoted(c.Table.Copied()), ", x.")
	switch {
	case r.leading != "":
		columns = r.leading + ", " + columns
	case c.Table.StoreAs == "":
		joins = "" // the key is one of the columns, or there is none
	}
	if c.Table.StoreAs != "" {
		columns += ", " + key
	}
	return fmt.Sprintf("SELECT %s FROM ONLY %s x%s WHERE %s", columns, c.Relation, joins, c.pages(version))
}

// pages is the condition that a row lies in the chunk.
func (c Chunk) pages(version int) string {
	if version >= tidRange {
		from := fmt.Sprintf("x.ctid >= '(%d,0)'::tid", c.From)
		if c.To == nil {
			return from
		}
		return fmt.Sprintf("%s AND x.ctid < '(%d,0)'::tid", from, *c.To)
	}
	last := fmt.Sprintf("(pg_relation_size(%s::regclass) / current_setting('block_size')::bigint - 1)", postgres.Literal(c.Relation))
	if c.To != nil {
		last = strconv.FormatInt(*c.To-1, 10)
	}
	return fmt.Sprintf("x.ctid = ANY (ARRAY(SELECT ('(' || p || ',' || i || ')')::tid FROM generate_series(%d, %s) p, generate_series(1, %d) i))",
		c.From, last, tuplesPerPage)
}

// lockTables are the relations that a chunk's statement may read.
func (c Chunk) lockTables(r *route) string {
	tables := []string{"ONLY " + c.Relation}
	if r.leading != "" || c.Table.StoreAs != "" {
		for _, p := range c.Table.Chain() {
			tables = append(tables, p.QualifiedSource())
		}
	}
	return "LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS SHARE MODE"
}

// copyIn is the statement that takes a location's rows.
func copyIn(t *layout.Table, target string, f rowstream.Format) string {
	columns := quoted(t.Copied())
	if t.StoreAs != "" {
		columns = append(columns, postgres.Ident(t.StoreAs))
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT %s)", target, strings.Join(columns, ", "), f)
}

// ordinal is the name of the ordinality column beside key columns; no user's
// column is called so.
const ordinal = "shardctl_ordinal"

// keys is a FROM item k with the key columns under their own names and an
// ordinal, from one array parameter a column.
func keys(t *layout.Table, f rowstream.Format, extra ...catalog.Column) string {
	columns := append(append([]catalog.Column(nil), t.PK...), extra...)
	arrays, names, casts := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		name := postgres.Ident(c.Name)
		names[i] = name
		if f == rowstream.Binary {
			arrays[i], casts[i] = fmt.Sprintf("$%d::%s[]", i+1, castName(c)), name
		} else {
			arrays[i], casts[i] = fmt.Sprintf("$%d::text[]", i+1), fmt.Sprintf("%s::%s AS %s", name, castName(c), name)
		}
	}
	return fmt.Sprintf("(SELECT %s, %s FROM unnest(%s) WITH ORDINALITY a(%s, %s)) k",
		strings.Join(casts, ", "), ordinal, strings.Join(arrays, ", "), strings.Join(names, ", "), ordinal)
}

// castName names a column's type without modifiers; for two types the plain
// name would mean a length of one.
func castName(c catalog.Column) string {
	switch c.BaseType {
	case "character":
		return "pg_catalog.bpchar"
	case "bit":
		return `pg_catalog."bit"`
	}
	return c.BaseType
}

// existing finds the ordinals of keys that a location has.
func existing(t *layout.Table, target string, f rowstream.Format) string {
	return fmt.Sprintf("SELECT k.%s FROM %s WHERE EXISTS (SELECT FROM %s t WHERE %s)", ordinal, keys(t, f), target, t.SamePK("t", "k"))
}

// buried finds the ordinals of keys with a tombstone later than a note.
func buried(t *layout.Table, migration string, note int64, f rowstream.Format) string {
	parts := make([]string, len(t.PK))
	for i, c := range t.PK {
		parts[i] = fmt.Sprintf("t.k%d %s k.%s", i+1, t.Source.KeyEqual[i], postgres.Ident(c.Name))
	}
	return fmt.Sprintf("SELECT k.%s FROM %s WHERE EXISTS (SELECT FROM %s t WHERE %s AND t.tick > %d)",
		ordinal, keys(t, f), tombstones(t, migration), strings.Join(parts, " AND "), note)
}

// outdated deletes the rows of a location whose version is below that of ours.
func outdated(t *layout.Table, target string, f rowstream.Format) string {
	version := *t.Source.Column(t.Spec.Version)
	return fmt.Sprintf("DELETE FROM %s t USING %s WHERE %s AND t.%[4]s < k.%[4]s",
		target, keys(t, f, version), t.SamePK("t", "k"), postgres.Ident(version.Name))
}

func tombstones(t *layout.Table, migration string) string {
	return postgres.Table(logschema.Schema, logschema.Tombstones(migration, t.No))
}

// doubled deletes all but one of the rows with equal keys.
func doubled(t *layout.Table, target string) string {
	names := postgres.Idents("", t.PKNames())
	return fmt.Sprintf(`DELETE FROM %[1]s t USING (SELECT %[2]s, (array_agg(ctid))[1] AS shardctl_keep FROM %[1]s GROUP BY %[2]s HAVING count(*) > 1) k
WHERE %[3]s AND t.ctid <> k.shardctl_keep`, target, names, t.SamePK("t", "k"))
}

// anyRow asks whether any of the tables has a row.
func anyRow(targets []string) string {
	if len(targets) == 0 {
		return "SELECT false"
	}
	parts := make([]string, len(targets))
	for i, t := range targets {
		parts[i] = "EXISTS (SELECT FROM " + t + ")"
	}
	return "SELECT " + strings.Join(parts, " OR ")
}

// logs are the quoted names of all log segments.
func logs(l *layout.Layout) []string {
	var out []string
	for _, t := range l.Tables {
		for s := range logschema.Segments {
			out = append(out, postgres.Table(logschema.Schema, logschema.Log(l.Spec.Migration, t.No, s)))
		}
	}
	return out
}

func quoted(columns []catalog.Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = postgres.Ident(c.Name)
	}
	return out
}

// qualified quotes a relation.
func qualified(n migrate.TableName) string { return postgres.Table(n.Schema, n.Name) }
