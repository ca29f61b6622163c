package auditlog

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// definer is part of every capture function: an application may have no right on our
// schema, and its writes must not fail for that.
const definer = "LANGUAGE plpgsql SECURITY DEFINER"

// pin keeps a function from the writer's search_path. It costs each call 10 µs, so the
// function on rows goes without: nothing in its body is looked up by a path.
const pin = " SET search_path = pg_catalog, pg_temp"

// segmentDDL makes one segment of a log. The primary key serves two readers: a
// batch is a range of xid, and a page of it goes on behind (xid, seq). Sequence
// numbers only tell entries of one transaction apart, so each session draws a
// handful at once. Rows are never updated or deleted, so there is nothing to vacuum.
func (s Side) segmentDDL(t *layout.Table, segment int) ddl.Statement {
	var b strings.Builder
	name := s.segment(t, segment)
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", name)
	b.WriteString("    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),\n")
	b.WriteString("    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),\n")
	b.WriteString("    op \"char\" NOT NULL,\n    loc text,\n")
	for _, c := range s.entryColumns(t) {
		fmt.Fprintf(&b, "    %s %s,\n", c.name, c.typeSQL())
	}
	b.WriteString("    PRIMARY KEY (xid, seq)\n) WITH (autovacuum_enabled = off)")
	return ddl.Statement{SQL: b.String(), Object: s.object("table", name, "DROP TABLE IF EXISTS "+name)}
}

// typeSQL is the column's type without modifiers and domains: a log must take any
// value the table takes, also NULL, and also after a column was widened. Two types
// mean a length of one if no other is given.
func (c entryColumn) typeSQL() string {
	sql := baseType(c.from)
	if c.from.Collation != "" {
		sql += " COLLATE " + c.from.Collation
	}
	return sql
}

func baseType(c catalog.Column) string {
	name, array := strings.CutSuffix(c.BaseType, "[]")
	switch name {
	case "character":
		name = "bpchar"
	case "bit":
		name = `"bit"`
	}
	if array {
		name += "[]"
	}
	return name
}

// captureBody records the keys of a written row in a segment. Nothing is computed
// and nothing else is read: this is what the application's writes pay for. All names
// are qualified and all values are columns of the very type they go into.
//
// On the source it also lets the applier pass. As a condition of the trigger that would
// be parsed anew by each statement of the application (9 µs); a database has it
// there all the same, for it takes more rows by copy and catch-up than by statements.
func (s Side) captureBody(t *layout.Table, segment int) string {
	pass := ""
	if s.onSource() {
		pass = fmt.Sprintf(`
  IF pg_catalog.current_setting(%s, true) OPERATOR(pg_catalog.=) %s THEN
    RETURN NULL;
  END IF;`, postgres.Literal(logschema.ApplierSetting), postgres.Literal(s.migration()))
	}
	update, insert, remove := s.insertEntry(t, segment, 'U'), s.insertEntry(t, segment, 'I'), s.insertEntry(t, segment, 'D')
	return fmt.Sprintf(`
BEGIN%s
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    %s;
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    %s;
  ELSE
    %s;
  END IF;
  RETURN NULL;
END
`, pass, update, insert, remove)
}

// insertEntry is the INSERT for one operation: an insert has no old side, a delete
// no new one.
func (s Side) insertEntry(t *layout.Table, segment int, op byte) string {
	columns, values := []string{"op"}, []string{"'" + string(op) + "'"}
	if !s.onSource() {
		columns, values = append(columns, "loc"), append(values, "TG_ARGV[0]")
	}
	for _, c := range s.entryColumns(t) {
		if c.old && op == 'I' || !c.old && op == 'D' {
			continue
		}
		row := "NEW."
		if c.old {
			row = "OLD."
		}
		columns, values = append(columns, c.name), append(values, row+postgres.Ident(c.from.Name))
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", s.segment(t, segment), strings.Join(columns, ", "), strings.Join(values, ", "))
}

// truncateBody records where rows are gone: on the source which relation was emptied,
// on a database the location, which is then read whole.
func (s Side) truncateBody(t *layout.Table, segment int) string {
	where := "format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME)"
	if !s.onSource() {
		where = "TG_ARGV[0]"
	}
	return fmt.Sprintf("\nBEGIN\n  INSERT INTO %s (op, loc) VALUES ('T', %s);\n  RETURN NULL;\nEND\n", s.segment(t, segment), where)
}

// stoppedBody records nothing.
const stoppedBody = "\nBEGIN\n  RETURN NULL;\nEND\n"

// functionDDL makes or replaces a trigger function. Replacing takes no lock on any
// table and counts from the next call on, in every session.
func (s Side) functionDDL(name, with, body string) ddl.Statement {
	return ddl.Statement{
		SQL:    fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger %s AS %s", name, definer+with, ddl.Body(body)),
		Object: s.object("function", name+"()", "DROP FUNCTION IF EXISTS "+name+"()"),
	}
}

// functionsDDL makes both functions of a table write into a segment.
func (s Side) functionsDDL(t *layout.Table, segment int) []ddl.Statement {
	return []ddl.Statement{
		s.functionDDL(s.captureFunction(t), "", s.captureBody(t, segment)),
		s.functionDDL(s.truncateFunction(t), pin, s.truncateBody(t, segment)),
	}
}

// stopDDL makes both functions of a table record nothing.
func (s Side) stopDDL(t *layout.Table) []ddl.Statement {
	return []ddl.Statement{s.functionDDL(s.captureFunction(t), "", stoppedBody), s.functionDDL(s.truncateFunction(t), pin, stoppedBody)}
}

// rowTrigger is the trigger on rows. On a partitioned table it is made once, on the
// root: the server clones it to every leaf, also to those attached later, so each
// leaf has it exactly once, whichever name a row was written through.
func (s Side) rowTrigger(t *layout.Table, root migrate.TableName) ddl.Statement {
	what := fmt.Sprintf("FOR EACH ROW EXECUTE FUNCTION %s()", s.captureFunction(t))
	if !s.onSource() {
		what = fmt.Sprintf("FOR EACH ROW %s EXECUTE FUNCTION %s(%s)", ddl.SkipApplier(s.migration()), s.captureFunction(t), s.location(root))
	}
	return ddl.Trigger(s.migration(), s.Name(), logschema.CaptureTrigger(s.migration()), quoted(root), "AFTER INSERT OR UPDATE OR DELETE", what, "ENABLE ALWAYS")
}

// truncateTrigger is the trigger on TRUNCATE; the server clones none of these.
func (s Side) truncateTrigger(t *layout.Table, root, relation migrate.TableName) ddl.Statement {
	what := fmt.Sprintf("FOR EACH STATEMENT %s EXECUTE FUNCTION %s(%s)", ddl.SkipApplier(s.migration()), s.truncateFunction(t), s.location(root))
	return ddl.Trigger(s.migration(), s.Name(), logschema.CaptureTruncateTrigger(s.migration()), quoted(relation), "AFTER TRUNCATE", what, "ENABLE ALWAYS")
}

// location is the triggers' argument: where the written row lives.
func (s Side) location(root migrate.TableName) string {
	if s.onSource() {
		return ""
	}
	return postgres.Literal(root.Schema)
}

// setTrigger is "ENABLE ALWAYS" or "DISABLE" of one relation's trigger. ONLY,
// because whether it recurses differs between versions.
func setTrigger(relation migrate.TableName, state, trigger string) string {
	return fmt.Sprintf("ALTER TABLE ONLY %s %s TRIGGER %s", quoted(relation), state, postgres.Ident(trigger))
}

func quoted(n migrate.TableName) string { return postgres.Table(n.Schema, n.Name) }
