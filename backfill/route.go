package backfill

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/internal/shardhash"
	"github.com/shardctl/shardctl/internal/shardsql"
)

// route says where the rows of a table go. It is the same for all of its chunks.
type route struct {
	table   *layout.Table
	format  rowstream.Format
	leading string // SQL of a first column that only routes, and is dropped; or ""
	field   int    // the field that routes; -1: nothing needs to be looked at
	byShard bool   // the field is the shard itself, computed by the server
	hasher  shardhash.Hasher
	bins    []binOf // by location
	byNo    []int   // shard -> bin, or -1 where the database is not asked for
	single  int     // the bin of all rows, where no field routes
	noKey   int     // the bin of rows without a key; dropRow or refuseRow
	keyAt   []int   // of a tuple that is copied: the fields of the primary key
	version int     // of a tuple that is copied: the version's field, or -1
}

// binOf is one location, and the database it is of; an everywhere table has one
// bin that all databases read.
type binOf struct {
	database string // "" is each
	target   string // quoted table
}

// What becomes of a row that no bin takes.
const (
	dropRow   = -1 // another run's database, or agreed to be skipped
	refuseRow = -2
)

// newRoute plans the routing of a table to some databases. Encoding is that of
// the source.
func newRoute(l *layout.Layout, t *layout.Table, databases []string, encoding string) (*route, error) {
	r := &route{table: t, format: format(t), field: -1, noKey: dropRow, version: -1}
	copied := t.Copied()
	for _, pk := range t.PK {
		r.keyAt = append(r.keyAt, columnAt(copied, pk.Name))
	}
	if t.Spec.Version != "" {
		r.version = columnAt(copied, t.Spec.Version)
	}
	if t.Everywhere() {
		// Each database has it in the same schema, so one table's name is enough.
		r.bins = []binOf{{target: l.Targets(t, databases[0])[0]}}
		return r, nil
	}
	r.place(l, databases)
	if l.Spec.Shards.Count == 1 {
		r.single = r.byNo[0]
		return r, nil
	}
	return r, r.route(l, encoding)
}

// place makes the bins, and finds that of each shard.
func (r *route) place(l *layout.Layout, databases []string) {
	r.byNo = make([]int, l.Spec.Shards.Count)
	for shard := range r.byNo {
		loc := l.LocationOf(r.table, shard)
		if !slices.Contains(databases, loc.Database) {
			r.byNo[shard] = dropRow
			continue
		}
		bin := binOf{database: loc.Database, target: l.QualifiedTarget(r.table, loc)}
		at := slices.Index(r.bins, bin)
		if at < 0 {
			at = len(r.bins)
			r.bins = append(r.bins, bin)
		}
		r.byNo[shard] = at
	}
	switch n := r.table.NoKey; n.Policy {
	case "shard":
		r.noKey = r.byNo[n.Shard]
	case "skip":
		r.noKey = dropRow
	default:
		r.noKey = refuseRow
	}
}

// route finds the field that routes: the key column itself, the stored key, a
// leading column that is dropped again, or, where the bytes on the wire are not those
// that hash (another encoding, the blanks of char), the shard as the server computes it.
func (r *route) route(l *layout.Layout, encoding string) (err error) {
	t := r.table
	_, key := t.KeyFrom("x")
	if t.Family == shardhash.Text && encoding != "UTF8" && encoding != "SQL_ASCII" || t.Key.BaseType == "character" {
		r.leading, r.byShard, r.field = "("+shardsql.Expr(key, t.Family, l.Spec.Shards.Count)+")::int8", true, 0
		return nil
	}
	switch {
	case t.Parent == nil:
		r.field = columnAt(t.Copied(), t.Key.Name)
	case t.StoreAs != "":
		r.field = len(t.Copied())
	default:
		r.leading, r.field = key, 0
	}
	r.hasher, err = shardhash.New(t.Family, l.Spec.Shards.Count)
	return err
}

// bin is where a row goes, or dropRow, or refuseRow.
func (r *route) bin(t rowstream.Tuple) (int, error) {
	if r.field < 0 {
		return r.single, nil
	}
	value, null := t.Field(r.field)
	if null {
		return r.noKey, nil
	}
	shard, err := r.shard(value)
	if err != nil {
		return 0, err
	}
	if shard < 0 || shard >= len(r.byNo) {
		return 0, fmt.Errorf("shard %d of %d", shard, len(r.byNo))
	}
	return r.byNo[shard], nil
}

func (r *route) shard(value []byte) (int, error) {
	switch {
	case r.byShard && r.format == rowstream.Text:
		return strconv.Atoi(string(value))
	case r.byShard:
		return int(int64(binary.BigEndian.Uint64(value))), nil
	case r.format == rowstream.Text:
		return r.hasher.ShardText(value)
	}
	return r.hasher.ShardBinary(value)
}

// skips reports whether a dropped row is one without a key, which is agreed to be
// skipped, and not one for another run.
func (r *route) skips(t rowstream.Tuple) bool {
	if r.table.NoKey.Policy != "skip" || r.field < 0 {
		return false
	}
	_, null := t.Field(r.field)
	return null
}

// first is how many leading fields are not copied.
func (r *route) first() int {
	if r.leading != "" {
		return 1
	}
	return 0
}

// format is binary where every column has a form that all servers read alike.
func format(t *layout.Table) rowstream.Format {
	columns := t.Copied()
	if t.Key != nil {
		columns = append(columns, *t.Key)
	}
	if slices.ContainsFunc(columns, func(c catalog.Column) bool { return !c.BuiltIn }) {
		return rowstream.Text
	}
	return rowstream.Binary
}

func columnAt(columns []catalog.Column, name string) int {
	return slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name })
}
