package target

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// storedKeyItems make the dormant triggers that keep store_as columns right once
// the application writes: a derived row takes its key from its parent, and a
// parent hands a changed key down.
func (p *plan) storedKeyItems(t *blueprint.Table, loc migrate.Location) []item {
	var out []item
	m, shard := p.migration(), fence.ShardAt(p.l, loc)
	if t.Layout.StoreAs != "" {
		function := postgres.Table(logschema.Schema, logschema.Store(m, t.Layout.No, shard))
		out = append(out, p.keyTrigger(t, loc, logschema.StoreTrigger(m), "BEFORE INSERT OR UPDATE", ddl.SkipApplier(m), function, p.takeKey(t, loc)))
	}
	if body := p.handDown(t, loc); body != "" {
		function := postgres.Table(logschema.Schema, logschema.HandDown(m, t.Layout.No, shard))
		key := postgres.Ident(t.Layout.TargetKeyColumn())
		when := strings.TrimSuffix(ddl.SkipApplier(m), ")") + fmt.Sprintf(" AND NEW.%[1]s IS DISTINCT FROM OLD.%[1]s)", key)
		out = append(out, p.keyTrigger(t, loc, logschema.HandDownTrigger(m), "AFTER UPDATE", when, function, body))
	}
	return out
}

func (p *plan) keyTrigger(t *blueprint.Table, loc migrate.Location, name, moment, when, function, body string) item {
	relation := p.at(loc, t.Root())
	trigger := ddl.Alter("CREATE TRIGGER %s %s ON %s FOR EACH ROW %s EXECUTE FUNCTION %s();\nALTER TABLE %[3]s DISABLE TRIGGER %[1]s",
		postgres.Ident(name), moment, relation, when, function)
	return item{kind: "trigger", name: belonging(relation, name),
		statements: []ddl.Statement{ddl.TriggerFunction(p.migration(), p.database, function, body), trigger}}
}

// takeKey reads the key through the parents. A row that keeps its parent and its
// stored key is not looked up.
func (p *plan) takeKey(t *blueprint.Table, loc migrate.Location) string {
	via, stored := postgres.Ident(t.Layout.Via.Name), postgres.Ident(t.Layout.StoreAs)
	from, key := p.parents(t.Layout, "NEW", loc)
	return fmt.Sprintf(`
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.%[1]s IS NOT DISTINCT FROM OLD.%[1]s AND NEW.%[2]s IS NOT DISTINCT FROM OLD.%[2]s THEN
      RETURN NEW;
    END IF;
  END IF;
  NEW.%[2]s := (SELECT %[3]s FROM %[4]s);
  RETURN NEW;
END `, via, stored, key, from)
}

// parents gives FROM and WHERE over a row's parents up to the first that holds the
// key, and the key.
func (p *plan) parents(t *layout.Table, row string, loc migrate.Location) (from, key string) {
	var b strings.Builder
	child, first := row, t
	for i := 1; ; i++ {
		alias := fmt.Sprintf("p%d", i)
		name := p.l.QualifiedTarget(t.Parent, loc)
		if i == 1 {
			b.WriteString(name + " " + alias)
		} else {
			fmt.Fprintf(&b, " JOIN %s %s ON %s", name, alias, t.RefersTo(child, alias))
		}
		t, child = t.Parent, alias
		if column := t.TargetKeyColumn(); column != "" {
			b.WriteString(" WHERE " + first.RefersTo(row, "p1"))
			return b.String(), child + "." + postgres.Ident(column)
		}
	}
}

// handDown updates the stored keys of all rows whose nearest holder of the key is
// the row that changed; "" where no table has such rows.
func (p *plan) handDown(t *blueprint.Table, loc migrate.Location) string {
	if t.Layout.TargetKeyColumn() == "" {
		return ""
	}
	var updates []string
	var visit func(at *layout.Table, between []*layout.Table)
	visit = func(at *layout.Table, between []*layout.Table) {
		for _, c := range at.Children {
			if c.StoreAs != "" {
				updates = append(updates, p.handTo(c, between, loc, t.Layout.TargetKeyColumn()))
			} else {
				visit(c, append(between[:len(between):len(between)], c))
			}
		}
	}
	visit(t.Layout, nil)
	if len(updates) == 0 {
		return ""
	}
	return "\nBEGIN\n  " + strings.Join(updates, "\n  ") + "\n  RETURN NULL;\nEND "
}

// handTo updates one table; between are the tables without a stored key on the way
// to it, the nearest to the changed row first.
func (p *plan) handTo(c *layout.Table, between []*layout.Table, loc migrate.Location, key string) string {
	var from, where []string
	child, row := c, "d"
	for i := len(between) - 1; i >= 0; i-- {
		alias := fmt.Sprintf("p%d", i+1)
		from = append(from, p.l.QualifiedTarget(between[i], loc)+" "+alias)
		where = append(where, child.RefersTo(row, alias))
		child, row = between[i], alias
	}
	where = append(where, child.RefersTo(row, "NEW"))
	stored := postgres.Ident(c.StoreAs)
	sql := fmt.Sprintf("UPDATE %s d SET %s = NEW.%s", p.l.QualifiedTarget(c, loc), stored, postgres.Ident(key))
	if len(from) > 0 {
		sql += " FROM " + strings.Join(from, ", ")
	}
	return sql + " WHERE " + strings.Join(where, " AND ") + fmt.Sprintf(" AND d.%s IS DISTINCT FROM NEW.%s;", stored, postgres.Ident(key))
}
