package migrate

import (
	"fmt"
	"regexp"
	"slices"
)

// Location is where rows really live: a schema of a database.
type Location struct {
	Database string `json:"database"`
	Schema   string `json:"schema"`
}

// String gives "db0.shard_017".
func (l Location) String() string { return l.Database + "." + quoteIfOdd(l.Schema) }

// schemaVerb is what stands for the shard's number in a schema pattern or a
// router entry: %d, or %03d for leading zeros.
var schemaVerb = regexp.MustCompile(`%(0[1-9][0-9]?)?d`)

// Numbered reports whether a name holds a verb for the shard's number.
func Numbered(pattern string) bool { return schemaVerb.MatchString(pattern) }

// Number puts a shard's number in the place of the pattern's verb. A pattern
// without one is returned as it is.
func Number(pattern string, shard int) string {
	at := schemaVerb.FindStringIndex(pattern)
	if at == nil {
		return pattern
	}
	return pattern[:at[0]] + fmt.Sprintf(pattern[at[0]:at[1]], shard) + pattern[at[1]:]
}

// SchemaPerShard reports whether each logical shard has a schema of its own.
// Otherwise all shards of a database share its tables.
func (s Shards) SchemaPerShard() bool { return Numbered(s.Schema) }

// SchemaName is the schema that holds the shard's rows.
func (s Shards) SchemaName(shard int) string { return Number(s.Schema, shard) }

// DatabaseOf names the database that the shard is placed on. A number out of
// range has none.
func (s Shards) DatabaseOf(shard int) string {
	if shard < 0 || shard >= len(s.Placement) {
		return ""
	}
	return s.Placement[shard]
}

// ShardsOf lists the shards placed on a database, in ascending order.
func (s Shards) ShardsOf(database string) []int {
	var shards []int
	for shard, placed := range s.Placement {
		if placed == database {
			shards = append(shards, shard)
		}
	}
	return shards
}

// LocationOf is where the shard's rows live.
func (s *Spec) LocationOf(shard int) Location {
	return Location{Database: s.Shards.DatabaseOf(shard), Schema: s.Shards.SchemaName(shard)}
}

// LocationsOf lists the places of sharded rows on a database: one for each of
// its shards, or a single one where they share a plain schema.
func (s *Spec) LocationsOf(database string) []Location {
	var locations []Location
	for _, shard := range s.Shards.ShardsOf(database) {
		locations = append(locations, s.LocationOf(shard))
		if !s.Shards.SchemaPerShard() {
			break
		}
	}
	return locations
}

// TableLocations lists the places of a table on a database. An everywhere table
// has exactly one: in the schema that it has on the source or, with a plain
// schema, in that.
func (s *Spec) TableLocations(t Table, database string) []Location {
	if !t.Everywhere {
		return s.LocationsOf(database)
	}
	if s.Shards.SchemaPerShard() {
		return []Location{{Database: database, Schema: t.Name.Schema}}
	}
	return []Location{{Database: database, Schema: s.Shards.Schema}}
}

// Schemas lists the schemas of a database that hold migrated tables, each once.
func (s *Spec) Schemas(database string) []string {
	var schemas []string
	for _, t := range s.Tables {
		for _, l := range s.TableLocations(t, database) {
			if !slices.Contains(schemas, l.Schema) {
				schemas = append(schemas, l.Schema)
			}
		}
	}
	return schemas
}

// SourceSchemas lists the source's schemas that hold migrated tables, each once,
// in the order of the spec.
func (s *Spec) SourceSchemas() []string {
	var schemas []string
	for _, t := range s.Tables {
		if !slices.Contains(schemas, t.Name.Schema) {
			schemas = append(schemas, t.Name.Schema)
		}
	}
	return schemas
}

// Database gives the database of that name.
func (s *Spec) Database(name string) (Database, bool) {
	for _, d := range s.Databases {
		if d.Name == name {
			return d, true
		}
	}
	return Database{}, false
}

// DatabaseNames lists the databases in the order of the spec.
func (s *Spec) DatabaseNames() []string {
	names := make([]string, len(s.Databases))
	for i, d := range s.Databases {
		names[i] = d.Name
	}
	return names
}
