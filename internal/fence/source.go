package fence

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// SourceFunctions are what the fences of all databases need on the source. They
// lock no table of the user's and may be run again.
func SourceFunctions(l *layout.Layout) []ddl.Statement {
	out := []ddl.Statement{hits(l, store.PlaceSource)}
	for _, d := range l.Spec.Databases {
		out = append(out, sourceFunctions(l, d.Name)...)
	}
	return out
}

func sourceFunctions(l *layout.Layout, database string) []ddl.Statement {
	k, m := place(l, database), l.Spec.Migration
	out := []ddl.Statement{ddl.TriggerFunction(m, store.PlaceSource, function(logschema.FenceTruncate(m, k)), truncateBody(l, database))}
	for _, t := range l.Tables {
		if !t.Everywhere() {
			out = append(out, ddl.TriggerFunction(m, store.PlaceSource, function(logschema.Fence(m, t.No, k)), rowBody(l, t, database)))
		}
	}
	return out
}

// SourceTriggers are the dormant fences of one table for all databases; creating
// them needs SHARE ROW EXCLUSIVE on the table. Everywhere tables have none.
func SourceTriggers(l *layout.Layout, t *layout.Table) []ddl.Statement {
	var out []ddl.Statement
	for _, d := range l.Spec.Databases {
		out = append(out, sourceTriggers(l, t, d.Name)...)
	}
	return out
}

func sourceTriggers(l *layout.Layout, t *layout.Table, database string) []ddl.Statement {
	if t.Everywhere() {
		return nil
	}
	k, m := place(l, database), l.Spec.Migration
	skip := ddl.SkipApplier(m)
	row := ddl.Trigger(m, store.PlaceSource, logschema.FenceTrigger(m, k), t.QualifiedSource(), "AFTER INSERT OR UPDATE OR DELETE",
		fmt.Sprintf("FOR EACH ROW %s EXECUTE FUNCTION %s()", skip, function(logschema.Fence(m, t.No, k))), "DISABLE")
	out := []ddl.Statement{row}
	for _, r := range t.Source.Relations() {
		relation := postgres.Table(r.Name.Schema, r.Name.Name)
		if r.Name != t.Spec.Name {
			// The server gives every partition a copy of the row trigger, which fires.
			out[0].SQL += fmt.Sprintf(";\nALTER TABLE ONLY %s DISABLE TRIGGER %s", relation, postgres.Ident(logschema.FenceTrigger(m, k)))
		}
		out = append(out, ddl.Trigger(m, store.PlaceSource, logschema.FenceTruncateTrigger(m, k), relation, "BEFORE TRUNCATE",
			fmt.Sprintf("FOR EACH STATEMENT %s EXECUTE FUNCTION %s()", skip, function(logschema.FenceTruncate(m, k))), "DISABLE"))
	}
	return out
}

// SourceDDL is the whole dormant fence of one database.
func SourceDDL(l *layout.Layout, database string) []ddl.Statement {
	out := append([]ddl.Statement{hits(l, store.PlaceSource)}, sourceFunctions(l, database)...)
	for _, t := range l.Tables {
		out = append(out, sourceTriggers(l, t, database)...)
	}
	return out
}

// refuseMoved is the refusal of a row that a database owns.
func refuseMoved(l *layout.Layout, database, what string) string {
	m := l.Spec.Migration
	return fmt.Sprintf(`%s
    RAISE EXCEPTION USING ERRCODE = '%s', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration %s: %s of %%I.%%I moved to database %%s (epoch %%s)', TG_TABLE_SCHEMA, TG_TABLE_NAME, %s,
        coalesce((SELECT o.epoch::text FROM shardctl.ownership o WHERE o.migration = %s AND o.database = %[5]s), '?')),
      HINT = 'write through the router, which knows the new home';`,
		count(m), Refused, m, what, postgres.Literal(database), postgres.Literal(m))
}

func truncateBody(l *layout.Layout, database string) string {
	return "\nBEGIN\n    " + refuseMoved(l, database, "rows") + "\n    RETURN NULL;\nEND "
}

// rowBody judges the old and the new row of a table for one database.
func rowBody(l *layout.Layout, t *layout.Table, database string) string {
	if l.Spec.Shards.Count == 1 {
		return "\nBEGIN\n    " + refuseMoved(l, database, "this row") + "\n    RETURN NULL;\nEND "
	}
	m := l.Spec.Migration
	var b strings.Builder
	fmt.Fprintf(&b, `
DECLARE
  old_shard int; new_shard int;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    %s
  END IF;
  IF TG_OP <> 'DELETE' THEN
    %s
  END IF;
`, sourceShard(l, t, "OLD", "old_shard"), sourceShard(l, t, "NEW", "new_shard"))
	if t.NoKey.Policy != "skip" {
		fmt.Fprintf(&b, "  IF TG_OP <> 'DELETE' AND new_shard IS NULL THEN\n    %s\n  END IF;\n", refuseKeyless(m))
	}
	fmt.Fprintf(&b, `  IF old_shard = ANY (%[1]s) OR new_shard = ANY (%[1]s) THEN
    %[2]s
  END IF;
  RETURN NULL;
END `, shardList(l.Spec.Shards.ShardsOf(database)), refuseMoved(l, database, "this row"))
	return b.String()
}

// sourceShard assigns the shard of the row OLD or NEW to a variable. Without its
// parent a new row is refused; an old one may go.
func sourceShard(l *layout.Layout, t *layout.Table, row, variable string) string {
	if !t.Derived() {
		return fmt.Sprintf("%s := %s;", variable, l.ShardSQL(t, row+"."+postgres.Ident(t.Key.Name)))
	}
	from, key := lockedChain(t, row, func(p *layout.Table) string { return p.QualifiedSource() })
	found := ""
	if row == "NEW" {
		found = "\n      IF NOT FOUND THEN\n    " + refuseParentless(l.Spec.Migration, t) + "\n      END IF;"
	}
	return fmt.Sprintf(`IF %s.%s IS NULL THEN
      %s := %s;
    ELSE
      SELECT %s INTO %s FROM %s FOR KEY SHARE;%s
    END IF;`, row, postgres.Ident(t.Via.Name), variable, noKeyShard(t), l.ShardSQL(t, key), variable, from, found)
}

// lockedChain gives FROM and WHERE over a row's parents, and the key. Inner
// joins: an outer one cannot be locked, and a missing parent is no row.
func lockedChain(t *layout.Table, row string, name func(*layout.Table) string) (from, key string) {
	first := t
	var b strings.Builder
	child := row
	for i, p := range t.Chain() {
		alias := fmt.Sprintf("p%d", i+1)
		if i == 0 {
			fmt.Fprintf(&b, "%s %s", name(p), alias)
		} else {
			fmt.Fprintf(&b, " JOIN %s %s ON %s", name(p), alias, t.RefersTo(child, alias))
		}
		t, child = p, alias
	}
	fmt.Fprintf(&b, " WHERE %s", first.RefersTo(row, "p1"))
	return b.String(), child + "." + postgres.Ident(t.Key.Name)
}

func refuseParentless(migration string, t *layout.Table) string {
	return refuseRow(migration, Refused, fmt.Sprintf("its parent in %s is not here", strings.ReplaceAll(t.Parent.Name(), "%", "%%")), "write the parent first, through the router")
}

func refuseKeyless(migration string) string {
	return refuseRow(migration, Refused, "it has no key, so that no database would own it", "give the row a key")
}

// refuseRow refuses a row that nobody may write here.
func refuseRow(migration, state, why, hint string) string {
	return fmt.Sprintf(`%s
    RAISE EXCEPTION USING ERRCODE = '%s', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format(%s, TG_TABLE_SCHEMA, TG_TABLE_NAME), HINT = %s;`, count(migration), state,
		postgres.Literal("shardctl migration "+migration+": row of %I.%I refused: "+why), postgres.Literal(hint))
}
