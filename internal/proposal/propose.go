package proposal

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

// Choice is what is proposed for one table.
type Choice struct {
	Name       migrate.TableName  `json:"name"`
	Key        string             `json:"key,omitempty"`  // its own column
	From       *migrate.TableName `json:"from,omitempty"` // or its parent
	Via        string             `json:"via,omitempty"`
	Everywhere bool               `json:"everywhere,omitempty"`
	As         string             `json:"as,omitempty"` // where two tables have one name
	Rows       int64              `json:"rows_estimated"`
	Bytes      int64              `json:"bytes"`

	notes []string // for the operator, one a line
}

// Proposal is a spec in the making.
type Proposal struct {
	Database  string
	Migration string
	Key       Candidate
	Others    []Candidate // other keys, the best first
	Tables    []Choice    // parents before children, everywhere tables last
	LeftOut   []LeftOut
}

// Propose decides. Column names the key; "" finds one. Where no table can be
// migrated, or none has a key, it refuses.
func Propose(s *Source, column string) (*Proposal, error) {
	if len(s.Tables) == 0 {
		return nil, migrate.Refuse("init.no_table", "source", fmt.Sprintf("there is no table that can be migrated; %d relations cannot", len(s.Refused)),
			"name the right database, or other schemas with --schema")
	}
	p := &Proposal{Database: s.Database, Migration: migrationName(s.Database)}
	candidates := s.candidates()
	if column != "" {
		chosen, err := s.named(column)
		if err != nil {
			return nil, err
		}
		candidates = slices.DeleteFunc(candidates, func(c Candidate) bool { return c.Column == column })
		candidates = append([]Candidate{chosen}, candidates...)
	}
	if len(candidates) == 0 {
		return nil, migrate.Refuse("init.no_key", "source", "no column looks like a key that rows could be spread by", "name one with --key")
	}
	p.Key, p.Others = candidates[0], slices.Clone(candidates[1:])
	p.choose(s)
	p.rename()
	return p, nil
}

// choose lists the tables in an order in which a reader meets parents first.
func (p *Proposal) choose(s *Source) {
	placed := p.Key.placed
	copies, tooBig := s.everywhere(placed)
	p.LeftOut = append([]LeftOut{}, s.Refused...)
	var everywhere []Choice
	for _, t := range s.Tables {
		switch {
		case placed[t.Name] != nil:
			p.Tables = append(p.Tables, t.choice(placed[t.Name]))
		case copies[t.Name]:
			c := Choice{Name: t.Name, Everywhere: true, Rows: t.Rows, Bytes: t.Bytes}
			c.notes = []string{"small, has no key, and tables that move refer to it: a full copy in each database"}
			everywhere = append(everywhere, c)
		default:
			p.LeftOut = append(p.LeftOut, LeftOut{t.Name, p.whyNot(s, t, tooBig[t.Name])})
		}
	}
	slices.SortStableFunc(p.Tables, func(a, b Choice) int { return p.order(a) - p.order(b) })
	p.Tables = append(p.Tables, everywhere...)
	slices.SortStableFunc(p.LeftOut, func(a, b LeftOut) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
}

// order puts the table that the key refers to first, and parents before children.
func (p *Proposal) order(c Choice) int {
	if c.Name == p.Key.key.entity {
		return -1
	}
	return p.Key.placed[c.Name].depth
}

func (t *Table) choice(at *place) Choice {
	c := Choice{Name: t.Name, Rows: t.Rows, Bytes: t.Bytes}
	if at.parent == nil {
		c.Key = at.column
	} else {
		from := at.parent.Name
		c.From, c.Via = &from, at.column
		if !t.Leads[at.column] {
			c.notes = append(c.notes, fmt.Sprintf("no index leads with %s: plan will ask for one", label(at.column)))
		}
	}
	if at.nullable {
		c.notes = append(c.notes, fmt.Sprintf("%s may be NULL: plan counts such rows, null_keys: says what becomes of them", label(at.column)))
	}
	return c
}

// whyNot words why a table that could be migrated has no place in the spec.
func (p *Proposal) whyNot(s *Source, t *Table, tooBig bool) string {
	key := label(p.Key.Column)
	switch c := t.Column(p.Key.key.column); {
	case tooBig:
		return fmt.Sprintf("has no key, and with %s it is large for a copy in each database: everywhere: true, if that is wanted", size(t.Bytes))
	case s.refersToPlaced(t, p.Key.placed):
		return "has no key: what it refers to moves by one, but not through a single column and a primary key of one"
	case c != nil:
		return fmt.Sprintf("its %s is of type %s, which hashes otherwise than the key", key, c.TypeName)
	}
	return fmt.Sprintf("has no %s, refers to no table that has a key, and no table that moves refers to it", key)
}

// rename tells tables of one name apart: on the databases their schemas do not.
func (p *Proposal) rename() {
	taken := map[string]bool{}
	for _, c := range p.Tables {
		taken[c.Name.Name] = true
	}
	seen := map[string]bool{}
	for i := range p.Tables {
		c := &p.Tables[i]
		if !seen[c.Name.Name] {
			seen[c.Name.Name] = true
			continue
		}
		as := cut(c.Name.Schema+"_"+c.Name.Name, migrate.MaxIdentifier)
		for n := 2; taken[as]; n++ {
			suffix := fmt.Sprintf("_%d", n)
			as = cut(c.Name.Schema+"_"+c.Name.Name, migrate.MaxIdentifier-len(suffix)) + suffix
		}
		taken[as] = true
		c.As = as
		c.notes = append(c.notes, "another table has this name too, and on the databases their schemas do not keep them apart")
	}
}

// cut shortens a name to a number of bytes, between characters.
func cut(name string, limit int) string {
	for len(name) > limit {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	return name
}

var notInName = regexp.MustCompile(`[^a-z0-9_]+`)

// migrationName makes a migration's name of the database's.
func migrationName(database string) string {
	name := cut(strings.Trim(notInName.ReplaceAllString(strings.ToLower(database), "_"), "_"), 32)
	if name == "" {
		return "migration"
	}
	return name
}
