package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// foreignKey is one that is made at a location.
type foreignKey struct {
	blueprint.ForeignKey
	from, to    *blueprint.Table
	relation    string // quoted
	referred    string // quoted
	partitioned bool   // NOT VALID cannot be had
}

// Kept reports whether a foreign key of a table is made on the databases: both of
// its ends are in one location by construction.
func Kept(l *layout.Layout, from *layout.Table, k blueprint.ForeignKey) bool {
	to := l.Table(k.To)
	switch {
	case to == nil:
		return false
	case to.Everywhere(), l.Spec.Shards.Count == 1 && len(l.Spec.Databases) == 1:
		return true
	case from.Everywhere():
		return false
	case l.Spec.Shards.Count == 1:
		return true
	case from.Derived() && from.Parent == to:
		return slices.Equal(k.Columns, []string{from.Via.Name}) && slices.Equal(k.Referred, to.PKNames())
	case from.Derived() || to.Derived():
		return false
	}
	i := slices.Index(k.Columns, from.Key.Name)
	return i >= 0 && k.Referred[i] == to.Key.Name
}

// foreignKeys are those that are made on a table at a location.
func (p *plan) foreignKeys(t *blueprint.Table, loc migrate.Location) []foreignKey {
	var out []foreignKey
	for _, r := range t.Relations {
		for _, k := range r.ForeignKeys {
			if !Kept(p.l, t.Layout, k) {
				continue
			}
			to := p.table(k.To)
			place := loc
			if to.Layout.Everywhere() {
				place = p.locations(to)[0]
			}
			out = append(out, foreignKey{ForeignKey: k, from: t, to: to, relation: p.at(loc, r), referred: p.at(place, to.Root()), partitioned: r.Key != ""})
		}
	}
	return out
}

func (p *plan) table(name migrate.TableName) *blueprint.Table {
	i := slices.IndexFunc(p.b.Tables, func(t *blueprint.Table) bool { return t.Layout.Spec.Name == name })
	return p.b.Tables[i]
}

// numbers are the tables that both ends are in, ascending: the order of locks.
func (k foreignKey) numbers() []int {
	out := []int{k.from.Layout.No, k.to.Layout.No}
	slices.Sort(out)
	return slices.Compact(out)
}

// addItem makes a foreign key without looking at the rows; validate looks.
func (p *plan) addItem(k foreignKey) item {
	return item{kind: "constraint", name: belonging(k.relation, k.Name),
		statements: []ddl.Statement{ddl.Alter("ALTER TABLE %s ADD %s", k.relation, k.definition(!p.replica))}}
}

func (k foreignKey) validate() string {
	return fmt.Sprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", k.relation, postgres.Ident(k.Name))
}

// definition is the constraint as the application has it or, where an applier
// writes without replica role, without action and deferred.
func (k foreignKey) definition(applied bool) string {
	def := fmt.Sprintf("CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (%s)", postgres.Ident(k.Name), k.list(k.Columns), k.referred, k.list(k.Referred))
	if k.Match == 'f' {
		def += " MATCH FULL"
	}
	if applied && k.Enforced {
		def += " DEFERRABLE INITIALLY DEFERRED"
	} else {
		def += action(" ON UPDATE", k.OnUpdate, nil) + action(" ON DELETE", k.OnDelete, k.SetColumns) + k.deferral()
	}
	if !k.Enforced {
		return def + " NOT ENFORCED" // which is not validated either
	}
	if !k.partitioned {
		def += " NOT VALID"
	}
	return def
}

// list names the columns of one side.
func (k foreignKey) list(columns []string) string {
	if !k.Period {
		return postgres.Idents("", columns)
	}
	last := len(columns) - 1
	return postgres.Idents("", columns[:last]) + ", PERIOD " + postgres.Ident(columns[last])
}

func action(on string, code byte, columns []string) string {
	words, ok := map[byte]string{'r': " RESTRICT", 'c': " CASCADE", 'n': " SET NULL", 'd': " SET DEFAULT"}[code]
	if !ok {
		return ""
	}
	if len(columns) > 0 {
		words += " (" + postgres.Idents("", columns) + ")"
	}
	return on + words
}

func (k foreignKey) deferral() string {
	switch {
	case k.Deferred:
		return " DEFERRABLE INITIALLY DEFERRED"
	case k.Deferrable:
		return " DEFERRABLE"
	}
	return ""
}

// exchange is the SQL that turns the constraint to one of its two forms; "" where
// both are the same, as where nothing is enforced. Without actions only its moment
// changes, and it stays valid.
func (k foreignKey) exchange(applied bool) string {
	if !k.Enforced {
		return ""
	}
	if k.OnUpdate == 'a' && k.OnDelete == 'a' {
		if k.Deferred {
			return ""
		}
		state := strings.TrimSpace(k.deferral())
		if applied {
			state = "DEFERRABLE INITIALLY DEFERRED"
		} else if state == "" {
			state = "NOT DEFERRABLE"
		} else {
			state += " INITIALLY IMMEDIATE"
		}
		return fmt.Sprintf("ALTER TABLE %s ALTER CONSTRAINT %s %s", k.relation, postgres.Ident(k.Name), state)
	}
	return fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD %s", k.relation, postgres.Ident(k.Name), k.definition(applied))
}
