package auditlog

import (
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Side is one server whose writes are captured: the source, whose log is read
// forward, or a database, whose log is read in reverse.
type Side struct {
	Layout   *layout.Layout
	Database string // "" is the source
}

// SourceSide is the source's part of capture.
func SourceSide(l *layout.Layout) Side { return Side{Layout: l} }

// DatabaseSide is a database's part of capture.
func DatabaseSide(l *layout.Layout, database string) Side {
	return Side{Layout: l, Database: database}
}

// Tables are those whose writes this side captures. Everywhere tables are always
// brought forward, so databases do not capture them, and those without a way back neither.
func (s Side) Tables() []*layout.Table {
	if s.onSource() {
		return s.Layout.Tables
	}
	return slices.DeleteFunc(slices.Clone(s.Layout.Tables), func(t *layout.Table) bool { return t.Everywhere() || !t.Returns() })
}

// Direction is the way in which this side's log is read.
func (s Side) Direction() store.Direction {
	if s.onSource() {
		return store.Forward
	}
	return store.Reverse
}

// Name is how messages and the registry name the side.
func (s Side) Name() string {
	if s.onSource() {
		return store.PlaceSource
	}
	return s.Database
}

func (s Side) onSource() bool    { return s.Database == "" }
func (s Side) migration() string { return s.Layout.Spec.Migration }

// roots are the tables on this side that hold a layout table's rows: itself on
// the source, one a location on a database.
func (s Side) roots(t *layout.Table) []migrate.TableName {
	if s.onSource() {
		return []migrate.TableName{t.Spec.Name}
	}
	var out []migrate.TableName
	for _, loc := range s.Layout.Locations(t, s.Database) {
		out = append(out, migrate.TableName{Schema: loc.Schema, Name: t.TargetName()})
	}
	return out
}

// segment is the quoted name of a log segment.
func (s Side) segment(t *layout.Table, segment int) string {
	return postgres.Table(logschema.Schema, logschema.Log(s.migration(), t.No, segment))
}

// segments are the quoted names of all segments of a table's log.
func (s Side) segments(t *layout.Table) []string {
	out := make([]string, logschema.Segments)
	for i := range out {
		out[i] = s.segment(t, i)
	}
	return out
}

func (s Side) captureFunction(t *layout.Table) string {
	return postgres.Table(logschema.Schema, logschema.Capture(s.migration(), t.No))
}

func (s Side) truncateFunction(t *layout.Table) string {
	return postgres.Table(logschema.Schema, logschema.CaptureTruncate(s.migration(), t.No))
}

// entryColumn is a column of a log that repeats one of the captured table.
type entryColumn struct {
	name string // "o1", "nkey"
	old  bool   // of the row before the write; else after it
	from catalog.Column
}

// entryColumns are the old and new primary key, the shard key where the row has
// it, and the column that refers to the parent.
func (s Side) entryColumns(t *layout.Table) []entryColumn {
	var out []entryColumn
	for _, side := range []string{"o", "n"} {
		for i, c := range t.PK {
			out = append(out, entryColumn{side + strconv.Itoa(i+1), side == "o", c})
		}
	}
	if key := s.keyColumn(t); key != nil {
		out = append(out, entryColumn{"okey", true, *key}, entryColumn{"nkey", false, *key})
	}
	if t.Derived() {
		out = append(out, entryColumn{"ovia", true, *t.Via}, entryColumn{"nvia", false, *t.Via})
	}
	return out
}

// keyColumn is the column of the captured row that holds its shard key; nil if
// none does or nobody asks.
func (s Side) keyColumn(t *layout.Table) *catalog.Column {
	switch {
	case t.Everywhere() || s.Layout.Spec.Shards.Count == 1 || t.Key == nil:
		return nil
	case !t.Derived():
		return t.Key
	case s.onSource() || t.StoreAs == "":
		return nil
	}
	stored := *t.Key
	stored.Name = t.StoreAs
	return &stored
}
