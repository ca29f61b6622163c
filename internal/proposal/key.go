package proposal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// key is a column that may decide the shard of rows.
type key struct {
	column string // the name that tables share; "" where only what refers to entity counts
	family string
	entity migrate.TableName // the table whose primary key it refers to, if there is one
	tier   int
}

// The tiers of evidence that a column is a key and not something that happens to be
// called the same.
const (
	unlikely  = iota // has few values
	plausible        // leads an index, or is part of a primary key
	likely           // refers to a table, is a uuid, or is called so
)

// few is how many values a key needs at least to spread rows over shards, where it
// is known that there are many rows.
const (
	few      = 64
	manyRows = 1000
)

// Candidate is a key that was considered.
type Candidate struct {
	Column string `json:"column"`
	Type   string `json:"type"`
	Tables int    `json:"tables"` // that find their rows' shard by it

	key    key
	placed map[migrate.TableName]*place
	own    int
	bytes  int64
}

// candidates lists the plausible keys, the best first.
func (s *Source) candidates() []Candidate {
	seen := map[[2]string]bool{}
	var out []Candidate
	for _, t := range s.Tables {
		for _, c := range t.Columns {
			family := layout.HashFamily(c)
			if family == "" || seen[[2]string{c.Name, family}] {
				continue
			}
			seen[[2]string{c.Name, family}] = true
			k := key{column: c.Name, family: family, entity: s.entityOf(c.Name, family)}
			owners := s.owners(k)
			if len(owners) == 0 {
				continue
			}
			var known bool
			if k.tier, known = s.evidence(k, owners); known {
				out = append(out, s.weigh(k, c.TypeName))
			}
		}
	}
	if len(out) == 0 {
		out = s.entities()
	}
	rank(out)
	return out
}

func rank(candidates []Candidate) {
	slices.SortStableFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.key.tier, a.key.tier), cmp.Compare(b.Tables, a.Tables), cmp.Compare(b.own, a.own),
			cmp.Compare(b.bytes, a.bytes), strings.Compare(a.Column, b.Column), strings.Compare(a.Type, b.Type))
	})
}

// weigh finds out what a key would place. The table that it refers to does not
// count: each reference has one.
func (s *Source) weigh(k key, typeName string) Candidate {
	c := Candidate{Column: k.column, Type: typeName, key: k, placed: s.place(k)}
	for name, p := range c.placed {
		if name == k.entity {
			continue
		}
		c.Tables++
		c.bytes += s.table(name).Bytes
		if p.parent == nil {
			c.own++
		}
	}
	return c
}

// owners are the tables with such a column that may not be NULL and does not
// alone name their own rows.
func (s *Source) owners(k key) []*Table {
	var out []*Table
	for _, t := range s.Tables {
		c := t.Column(k.column)
		if c != nil && c.NotNull && s.holds(t, k) && !t.namedBy(k.column) {
			out = append(out, t)
		}
	}
	return out
}

// holds reports whether a table's column of the key's name is that key: of its family,
// and no reference to something else.
func (s *Source) holds(t *Table, k key) bool {
	c := t.Column(k.column)
	if k.column == "" || c == nil || layout.HashFamily(*c) != k.family {
		return false
	}
	return !slices.ContainsFunc(s.Links, func(l Link) bool {
		return l.From == t.Name && l.single(k.column) && l.To != k.entity && (l.To == t.Name || l.Referred[0] != k.column)
	})
}

// namedBy reports whether a column is the whole primary key.
func (t *Table) namedBy(column string) bool {
	return len(t.PrimaryKey) == 1 && t.PrimaryKey[0] == column
}

// evidence says how sure it is that a column is a key; known is false without any.
func (s *Source) evidence(k key, owners []*Table) (tier int, known bool) {
	distinct, rows := -1.0, int64(0)
	for _, t := range owners {
		if slices.Contains(t.PrimaryKey, k.column) || t.Leads[k.column] {
			tier, known = max(tier, plausible), true
		}
		if n, ok := t.Distinct[k.column]; ok && t.Rows >= manyRows {
			if n < 0 { // a share of the rows
				n *= -float64(t.Rows)
			}
			distinct, rows = max(distinct, n), max(rows, t.Rows)
		}
	}
	if k.family == "uuid" || looksLikeKey(k.column) || s.refers(k.column, owners) {
		tier, known = likely, true
	}
	if rows > 0 && distinct < few {
		tier = unlikely
	}
	return tier, known
}

// refers reports whether the column is a foreign key somewhere.
func (s *Source) refers(column string, owners []*Table) bool {
	return slices.ContainsFunc(s.Links, func(l Link) bool {
		return slices.Contains(l.Columns, column) && slices.ContainsFunc(owners, func(t *Table) bool { return t.Name == l.From })
	})
}

// looksLikeKey reports whether a column's name ends as names of keys do.
func looksLikeKey(name string) bool {
	if strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID") && len(name) > 2 {
		return true
	}
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "_id") || strings.HasSuffix(lower, "_uuid") || strings.HasSuffix(lower, "_key")
}

// entityOf is the table whose primary key most columns of a name refer to.
func (s *Source) entityOf(column, family string) migrate.TableName {
	votes := map[migrate.TableName]int{}
	var best migrate.TableName
	for _, l := range s.Links {
		if !l.single(column) || l.From == l.To || !s.refersToKey(l, family) {
			continue
		}
		votes[l.To]++
		if n := votes[l.To]; best == (migrate.TableName{}) || n > votes[best] || n == votes[best] && l.To.String() < best.String() {
			best = l.To
		}
	}
	return best
}

// single reports whether the foreign key is this one column.
func (l Link) single(column string) bool { return len(l.Columns) == 1 && l.Columns[0] == column }

// refersToKey reports whether a foreign key of one column refers to the one column
// of its parent's primary key. Family "" is any.
func (s *Source) refersToKey(l Link, family string) bool {
	from, to := s.table(l.From), s.table(l.To)
	if from == nil || to == nil || len(l.Columns) != 1 || !to.namedBy(l.Referred[0]) {
		return false
	}
	a, b := from.Column(l.Columns[0]), to.Column(l.Referred[0])
	return layout.Comparable(*a, *b) && (family == "" || layout.HashFamily(*a) == family && layout.HashFamily(*b) == family)
}

// entities are the keys of last resort: the primary key of each table, for itself
// and what refers to it.
func (s *Source) entities() []Candidate {
	var out []Candidate
	for _, t := range s.Tables {
		if len(t.PrimaryKey) != 1 {
			continue
		}
		c := t.Column(t.PrimaryKey[0])
		if family := layout.HashFamily(*c); family != "" {
			w := s.weigh(key{family: family, entity: t.Name, tier: plausible}, c.TypeName)
			w.Column, w.bytes = c.Name, w.bytes+t.Bytes
			out = append(out, w)
		}
	}
	return out
}

// named is the key that an operator asked for, in the family that most tables have.
func (s *Source) named(column string) (Candidate, error) {
	var found []Candidate
	for _, family := range []string{"int", "text", "uuid"} {
		k := key{column: column, family: family, entity: s.entityOf(column, family), tier: likely}
		typeName := ""
		for _, t := range s.Tables {
			if c := t.Column(column); c != nil && layout.HashFamily(*c) == family && typeName == "" {
				typeName = c.TypeName
			}
		}
		if typeName != "" {
			found = append(found, s.weigh(k, typeName))
		}
	}
	if len(found) == 0 {
		return Candidate{}, migrate.Usage("init.no_column", column, "no table has such a column of a type that can be a key",
			"name a column of type smallint, integer, bigint, uuid, text or varchar, or leave --key out")
	}
	rank(found)
	return found[0], nil
}
