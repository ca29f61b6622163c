package fence

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// DatabaseFunctions are what the closed fence of a database needs.
func DatabaseFunctions(l *layout.Layout, database string) []ddl.Statement {
	m := l.Spec.Migration
	return []ddl.Statement{hits(l, database), ddl.TriggerFunction(m, database, function(logschema.Closed(m)), closedBody(m, database))}
}

// Closed puts up the closed fence of one relation (quoted) on a database: of a
// partitioned table each partition needs its own, as a statement that names a
// partition fires only that one's. It is removed with the table, so that nothing
// is registered.
func Closed(l *layout.Layout, relation string) ddl.Statement {
	m := l.Spec.Migration
	name := postgres.Ident(logschema.ClosedTrigger(m))
	return ddl.Alter("CREATE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT %s EXECUTE FUNCTION %s();\nALTER TABLE ONLY %[2]s ENABLE ALWAYS TRIGGER %[1]s",
		name, relation, ddl.SkipApplier(m), function(logschema.Closed(m)))
}

func closedBody(migration, database string) string {
	return fmt.Sprintf(`
DECLARE
  c record;
BEGIN
  %s
  SELECT * INTO c FROM shardctl.control WHERE migration = %s;
  RAISE EXCEPTION USING ERRCODE = '%s', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
    MESSAGE = format('shardctl migration %s: %%I.%%I on database %%s is closed: it is written on the source (epoch %%s)',
      TG_TABLE_SCHEMA, TG_TABLE_NAME, %s, coalesce(c.epoch::text, '?')),
    HINT = CASE WHEN c.owner = %[5]s THEN 'write this table through the source''s entry' ELSE 'write through the router, which knows the owner' END;
END `, count(migration), postgres.Literal(migration), Refused, migration, postgres.Literal(database))
}
