package proposal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

// place is how a table's rows find their shard.
type place struct {
	column   string // the table's own key, or with parent the column that refers to it
	parent   *Table
	depth    int  // parents up to the key
	nullable bool // the column may be NULL
}

// place gives every table a key that can have one: its own where that is never NULL,
// else its nearest parent's, and only then a column that may be NULL.
func (s *Source) place(k key) map[migrate.TableName]*place {
	placed := map[migrate.TableName]*place{}
	for _, nullable := range []bool{false, true} {
		for _, t := range s.Tables {
			if p := s.ownKey(t, k, nullable); p != nil && placed[t.Name] == nil {
				placed[t.Name] = p
			}
		}
		for depth := 1; depth <= migrate.MaxChain; depth++ {
			s.derive(placed, depth, nullable)
		}
	}
	return placed
}

// ownKey finds the column of a table that holds the key itself.
func (s *Source) ownKey(t *Table, k key, nullable bool) *place {
	if t.Name == k.entity {
		return &place{column: t.PrimaryKey[0]}
	}
	if c := t.Column(k.column); s.holds(t, k) && (c.NotNull || nullable) {
		return &place{column: c.Name, nullable: !c.NotNull}
	}
	// A single column of another name that refers to the same table holds the same key.
	var columns []string
	for _, l := range s.Links {
		if l.From == t.Name && l.To == k.entity && s.refersToKey(l, k.family) {
			columns = append(columns, l.Columns[0])
		}
	}
	if len(columns) != 1 {
		return nil
	}
	if c := t.Column(columns[0]); c.NotNull || nullable {
		return &place{column: c.Name, nullable: !c.NotNull}
	}
	return nil
}

// derive places the tables that refer to one which is depth-1 parents from the key.
func (s *Source) derive(placed map[migrate.TableName]*place, depth int, nullable bool) {
	found := map[migrate.TableName]*place{}
	for _, l := range s.Links {
		parent := placed[l.To]
		if placed[l.From] != nil || parent == nil || parent.depth != depth-1 || l.From == l.To || !s.refersToKey(l, "") {
			continue
		}
		c := s.table(l.From).Column(l.Columns[0])
		if !c.NotNull && !nullable {
			continue
		}
		p := &place{column: c.Name, parent: s.table(l.To), depth: depth, nullable: !c.NotNull}
		if was := found[l.From]; was == nil || p.before(was) {
			found[l.From] = p
		}
	}
	for name, p := range found {
		placed[name] = p
	}
}

// before reports whether one way to the key is better than another of its length.
func (p *place) before(other *place) bool {
	if p.nullable != other.nullable {
		return !p.nullable
	}
	return cmp.Or(strings.Compare(p.column, other.column), strings.Compare(p.parent.Name.String(), other.parent.Name.String())) < 0
}

// copyLimit bounds the size of a table that is proposed for every database: more
// would cost each of them disk, cache and a copy that takes minutes.
const copyLimit = 256 << 20

// everywhere picks reference tables: small ones without a key that tables which move
// refer to, and that themselves refer to none of those.
func (s *Source) everywhere(placed map[migrate.TableName]*place) (chosen map[migrate.TableName]bool, tooBig map[migrate.TableName]bool) {
	chosen, tooBig = map[migrate.TableName]bool{}, map[migrate.TableName]bool{}
	for again := true; again; {
		again = false
		for _, l := range s.Links {
			to := s.table(l.To)
			if to == nil || placed[l.To] != nil || chosen[l.To] || tooBig[l.To] || placed[l.From] == nil && !chosen[l.From] || s.refersToPlaced(to, placed) {
				continue
			}
			if to.Bytes > copyLimit {
				tooBig[l.To] = true
				continue
			}
			chosen[l.To], again = true, true
		}
	}
	return chosen, tooBig
}

func (s *Source) refersToPlaced(t *Table, placed map[migrate.TableName]*place) bool {
	return slices.ContainsFunc(s.Links, func(l Link) bool { return l.From == t.Name && placed[l.To] != nil })
}
