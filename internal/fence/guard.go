package fence

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Guarded reports whether a table has a placement guard.
func Guarded(l *layout.Layout, t *layout.Table) bool {
	return !t.Everywhere() && l.Spec.Shards.Count > 1
}

// GuardFunctions are the functions of a database's placement guards. A table with
// its own key needs one; a derived one needs one a location, which names the
// parent's table there.
func GuardFunctions(l *layout.Layout, database string) []ddl.Statement {
	m := l.Spec.Migration
	var out []ddl.Statement
	for _, t := range l.Tables {
		switch {
		case !Guarded(l, t):
		case !t.Derived():
			out = append(out, ddl.TriggerFunction(m, database, function(logschema.Guard(m, t.No, logschema.NoShard)), keyGuard(l, t, database)))
		default:
			for _, loc := range l.Locations(t, database) {
				out = append(out, ddl.TriggerFunction(m, database, function(guardName(l, t, loc)), parentGuard(l, t, loc)))
			}
		}
	}
	return out
}

// Guard makes the dormant placement guard of a table at a location. It is removed
// with the table, so that nothing is registered.
func Guard(l *layout.Layout, t *layout.Table, loc migrate.Location) ddl.Statement {
	m := l.Spec.Migration
	name, relation := postgres.Ident(logschema.GuardTrigger(m)), l.QualifiedTarget(t, loc)
	argument := ""
	if l.Spec.Shards.SchemaPerShard() && !t.Derived() {
		argument = fmt.Sprint(ShardAt(l, loc))
	}
	// On a partitioned table both reach every partition by themselves.
	return ddl.Alter("CREATE TRIGGER %s AFTER INSERT OR UPDATE ON %s FOR EACH ROW %s EXECUTE FUNCTION %s(%s);\nALTER TABLE %[2]s DISABLE TRIGGER %[1]s",
		name, relation, ddl.SkipApplier(m), function(guardName(l, t, loc)), argument)
}

func guardName(l *layout.Layout, t *layout.Table, loc migrate.Location) string {
	if !t.Derived() {
		return logschema.Guard(l.Spec.Migration, t.No, logschema.NoShard)
	}
	return logschema.Guard(l.Spec.Migration, t.No, ShardAt(l, loc))
}

// ShardAt is the one shard of a location where each has a schema of its own, else
// logschema.NoShard.
func ShardAt(l *layout.Layout, loc migrate.Location) int {
	if !l.Spec.Shards.SchemaPerShard() {
		return logschema.NoShard
	}
	for _, shard := range l.Spec.Shards.ShardsOf(loc.Database) {
		if l.Spec.Shards.SchemaName(shard) == loc.Schema {
			return shard
		}
	}
	return logschema.NoShard
}

// keyGuard judges a row by its own key.
func keyGuard(l *layout.Layout, t *layout.Table, database string) string {
	m, key := l.Spec.Migration, postgres.Ident(t.Key.Name)
	here := "new_shard = ANY (" + shardList(l.Spec.Shards.ShardsOf(database)) + ")"
	if l.Spec.Shards.SchemaPerShard() {
		here = "new_shard = TG_ARGV[0]::int"
	}
	return fmt.Sprintf(`
DECLARE
  new_shard int;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.%[1]s IS NOT DISTINCT FROM OLD.%[1]s THEN
      RETURN NULL;
    END IF;
  END IF;
  new_shard := %[2]s;
  IF %[3]s THEN
    RETURN NULL;
  END IF;
  %[4]s
  RAISE EXCEPTION USING ERRCODE = '%[5]s', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
    MESSAGE = format('shardctl migration %[6]s: row of %%I.%%I refused: its key maps to shard %%s on database %%s, not to this location', TG_TABLE_SCHEMA, TG_TABLE_NAME,
      coalesce(new_shard::text, 'none'), coalesce((SELECT o.database FROM shardctl.ownership o WHERE o.migration = %[7]s AND new_shard = ANY (o.shards)), 'none')),
    HINT = 'write through the router; to move a row, delete it here and insert it there';
END `, key, l.ShardSQL(t, "NEW."+key), here, count(m), Misplaced, m, postgres.Literal(m))
}

// parentGuard lets a derived row in if its parent is at the same location: where
// that is, the parent's own guard sees to.
func parentGuard(l *layout.Layout, t *layout.Table, loc migrate.Location) string {
	m, via := l.Spec.Migration, postgres.Ident(t.Via.Name)
	keyless := "    " + refuseRow(m, Misplaced, "it has no key, and rows without a key do not belong to this location", "give the row a parent")
	for _, shard := range l.Spec.Shards.ShardsOf(loc.Database) {
		if t.NoKey.Policy == "shard" && t.NoKey.Shard == shard && l.Spec.LocationOf(shard) == loc {
			keyless = "    RETURN NULL;"
		}
	}
	return fmt.Sprintf(`
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.%[1]s IS NOT DISTINCT FROM OLD.%[1]s THEN
      RETURN NULL;
    END IF;
  END IF;
  IF NEW.%[1]s IS NULL THEN
%[2]s
  END IF;
  PERFORM 1 FROM %[3]s p1 WHERE %[4]s FOR KEY SHARE;
  IF NOT FOUND THEN
    %[5]s
  END IF;
  RETURN NULL;
END `, via, keyless, l.QualifiedTarget(t.Parent, loc), t.RefersTo("NEW", "p1"),
		refuseRow(m, Misplaced, "its parent is not at this location", "write through the router, the parent first"))
}
