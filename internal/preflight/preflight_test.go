package preflight_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/preflight"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const schema = `CREATE TABLE account (id bigint PRIMARY KEY, owner int);
CREATE TABLE item (id bigint PRIMARY KEY, account_id bigint NOT NULL, body text);
CREATE INDEX ON item (account_id);`

const tables = `
  - {name: account, key: id}
  - {name: item, key: {from: account, via: account_id}}`

// survey runs all checks over a source with the given SQL and one database.
func survey(t *testing.T, sourceSQL, targetSQL, tables string, more ...string) []migrate.Finding {
	t.Helper()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, sourceSQL)
	if targetSQL != "" {
		dbs[1].Exec(t, targetSQL)
	}
	return run(t, dbs[0].DSN(), dbs[1].DSN(), tables, more...)
}

func run(t *testing.T, source, target, tables string, more ...string) []migrate.Finding {
	t.Helper()
	text := fmt.Sprintf("version: 1\nmigration: m\nsource: {dsn: %q}\ndatabases:\n  db0: {dsn: %q}\nshards: {count: 4, schema: \"s_%%d\", hash: postgres, placement: {db0: 0-3}}\ntables:%s\n%s\n",
		source, target, tables, strings.Join(more, "\n"))
	spec, err := migrate.Decode("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	found, s, err := preflight.Run(t.Context(), spec)
	defer s.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFindings(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name           string
		source, target string // added to schema
		tables         string // defaults to tables
		id             string
		severity       migrate.Severity
		says           string // part of object or message
	}{
		{"table missing", "DROP TABLE item", "", "", "table.missing", migrate.SeverityError, "item"},
		{"a view", "CREATE VIEW v AS SELECT * FROM account", "", "\n  - {name: v, key: id}", "table.not_a_table", migrate.SeverityError, "v"},
		{"no primary key", "ALTER TABLE item DROP CONSTRAINT item_pkey", "", "", "table.no_primary_key", migrate.SeverityError, "item"},
		{"key column missing", "", "", "\n  - {name: account, key: nope}", "key.missing_column", migrate.SeverityError, "nope"},
		{"key type", "ALTER TABLE account ALTER owner TYPE numeric", "", "\n  - {name: account, key: owner}", "key.type", migrate.SeverityError, "owner"},
		{"null keys", "INSERT INTO account VALUES (1, NULL), (2, NULL), (3, 3)", "", "\n  - {name: account, key: owner}", "key.null", migrate.SeverityError, "2 rows"},
		{"null keys skipped", "INSERT INTO account VALUES (1, NULL)", "", "\n  - {name: account, key: owner, null_keys: skip}", "key.null", migrate.SeverityWarning, "1 rows"},
		{"orphans", "INSERT INTO item VALUES (1, 77)", "", "", "key.orphan", migrate.SeverityError, "1 rows"},
		{"unique without the key", "ALTER TABLE account ADD UNIQUE (owner)", "", "", "unique.without_key", migrate.SeverityWarning, "owner"},
		{"unique that only includes the key", "CREATE UNIQUE INDEX ON account (owner) INCLUDE (id)", "", "", "unique.without_key", migrate.SeverityWarning, "owner"},
		{"rule not copied", "CREATE RULE r AS ON DELETE TO item DO ALSO NOTIFY x", "", "", "rule.not_copied", migrate.SeverityWarning, "r on public.item"},
		{"statistics not copied", "CREATE STATISTICS st (dependencies) ON id, account_id FROM item", "", "", "statistics.not_copied", migrate.SeverityInfo, "public.st"},
		{"trigger in replica role", "CREATE TRIGGER x BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger(); ALTER TABLE item ENABLE ALWAYS TRIGGER x", "", "", "applied.triggers", migrate.SeverityError, "public.item"},
		{"via without index", "DROP INDEX item_account_id_idx", "", "", "via.no_index", migrate.SeverityError, "account_id"},
		{"fk leaves the group", "CREATE TABLE plan (id int PRIMARY KEY); ALTER TABLE account ADD FOREIGN KEY (owner) REFERENCES plan", "", "", "fk.leaves_group", migrate.SeverityWarning, "plan"},
		{"fk into the group", "CREATE TABLE log (id int PRIMARY KEY, a bigint REFERENCES account)", "", "", "fk.into_group", migrate.SeverityWarning, "log"},
		{"fk to an everywhere table", "CREATE TABLE plan (id int PRIMARY KEY); ALTER TABLE account ADD FOREIGN KEY (owner) REFERENCES plan", "", "\n  - {name: account, key: id}\n  - {name: plan, everywhere: true}", "fk.to_everywhere", migrate.SeverityWarning, "waits in quarantine"},
		{"fk across shards", "ALTER TABLE account ADD boss bigint REFERENCES account; INSERT INTO account VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1)", "", "", "fk.cross_shard", migrate.SeverityWarning, "another shard"},
		{"fk that may cross shards", "ALTER TABLE account ADD boss bigint REFERENCES account; INSERT INTO account VALUES (1, 1, 1)", "", "", "fk.not_created", migrate.SeverityInfo, "one shard"},
		{"extension missing", "CREATE EXTENSION hstore; ALTER TABLE item ADD tags hstore", "", "", "extension.missing", migrate.SeverityError, "hstore"},
		{"extension of a nested type missing", "CREATE EXTENSION hstore; CREATE TYPE tagged AS (tags hstore[]); CREATE DOMAIN tagging AS tagged[]; ALTER TABLE item ADD tags tagging", "", "", "extension.missing", migrate.SeverityError, "hstore"},
		{"extension of an index missing", "CREATE EXTENSION pg_trgm; ALTER TABLE item ADD t text; CREATE INDEX ON item USING gin (t gin_trgm_ops)", "", "", "extension.missing", migrate.SeverityError, "pg_trgm"},
		{"extension of a default missing", "CREATE EXTENSION \"uuid-ossp\"; ALTER TABLE item ADD u uuid DEFAULT uuid_generate_v4()", "", "", "extension.missing", migrate.SeverityError, "uuid-ossp"},
		{"target not empty", "", "CREATE SCHEMA s_2; CREATE TABLE s_2.account (id int)", "", "target.not_empty", migrate.SeverityError, "s_2.account"},
		{"published", "CREATE PUBLICATION p_test FOR TABLE account", "", "", "table.published", migrate.SeverityWarning, "p_test"},
		{"view not copied", "CREATE VIEW w AS SELECT * FROM item", "", "", "view.not_copied", migrate.SeverityInfo, "w"},
		{"a trigger function that pins the schema", "CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN PERFORM count(*) FROM account; RETURN NULL; END $$; CREATE TRIGGER seen AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION seen()", "", "", "trigger.schema", migrate.SeverityWarning, "seen()"},
		{"a trigger function that names the schema", "CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM count(*) FROM Public.account a; RETURN NULL; END $$; CREATE TRIGGER seen AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION seen()", "", "", "trigger.schema", migrate.SeverityWarning, "seen()"},
		{"a large object", "ALTER TABLE item ADD image oid; INSERT INTO account VALUES (1, 1); INSERT INTO item (id, account_id, image) VALUES (1, 1, lo_from_bytea(0, 'x'))", "", "", "column.large_object", migrate.SeverityError, "item.image"},
		{"large objects in an array", "ALTER TABLE item ADD images oid[]; INSERT INTO account VALUES (1, 1); INSERT INTO item (id, account_id, images) VALUES (1, 1, ARRAY[lo_from_bytea(0, 'x')])", "", "", "column.large_object", migrate.SeverityError, "item.images"},
		{"names of objects", "ALTER TABLE account ADD r regclass[], ADD x regtype; INSERT INTO account VALUES (1, 1, '{pg_class,account,4000000000}', 'int')", "", "", "column.object_name", migrate.SeverityError, "account.r: its rows name objects that db0 does not have, where they could not be written: public.account"},
		{"inheritance", "CREATE TABLE sub () INHERITS (account)", "", "", "table.inherited", migrate.SeverityError, "account"},
		{"same server", "", "", "", "target.same_server", migrate.SeverityWarning, "db0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := c.tables
			if spec == "" {
				spec = tables
			}
			found := survey(t, schema+c.source, c.target, spec)
			for _, f := range found {
				if f.ID == c.id && f.Severity == c.severity && strings.Contains(f.Object+": "+f.Message, c.says) {
					return
				}
			}
			t.Errorf("no %s %s that says %q in %+v", c.severity, c.id, c.says, found)
		})
	}
}

// What is as it should be is not complained about.
func TestNothingBlocksAGoodSource(t *testing.T) {
	t.Parallel()
	found := survey(t, schema+`CREATE TYPE mood AS ENUM ('ok'); ALTER TABLE account ADD m mood, ADD kind regtype, ADD rel regclass, ADD who regrole, ADD v int, ADD n int;
		INSERT INTO account VALUES (1, 1, 'ok', 'mood', 'pg_class', current_user::regrole, 1, 1); INSERT INTO item VALUES (1, 1)`, "", tables)
	for _, f := range found {
		if f.ID != "target.same_server" {
			t.Errorf("unexpected %+v", f)
		}
	}
}

func TestSameDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	found := run(t, db.DSN(), db.DSN()+"&connect_timeout=9", tables)
	if !has(found, "target.same_database") {
		t.Errorf("findings %+v", found)
	}
}

func TestAServerThatIsDownIsAFinding(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, schema)
	found := run(t, db.DSN(), "postgres://postgres:hidden-word@127.0.0.1:1/postgres", tables)
	if !has(found, "connect.failed") {
		t.Fatalf("findings %+v", found)
	}
	for _, f := range found {
		if strings.Contains(f.Message+f.Object, "hidden-word") {
			t.Errorf("the password shows in %+v", f)
		}
	}
}

func TestEncodingThatDiffersIsRefused(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, schema)
	latin := dbs[1].Name + "_latin1"
	dbs[1].Exec(t, "CREATE DATABASE "+latin+" TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
	t.Cleanup(func() { dbs[1].Exec(t, "DROP DATABASE "+latin+" WITH (FORCE)") })
	found := run(t, dbs[0].DSN(), strings.Replace(dbs[1].DSN(), dbs[1].Name, latin, 1), tables)
	if !has(found, "encoding.differs") {
		t.Errorf("findings %+v", found)
	}
}

func TestPreparedTransactionIsRefused(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, schema)
	conn := dbs[0].Connect(t)
	gid := dbs[0].Name
	for _, sql := range []string{"BEGIN", "INSERT INTO account VALUES (1, 1)", "PREPARE TRANSACTION '" + gid + "'"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	found := run(t, dbs[0].DSN(), dbs[1].DSN(), tables)
	dbs[0].Exec(t, "ROLLBACK PREPARED '"+gid+"'")
	if !has(found, "transaction.prepared") {
		t.Errorf("findings %+v", found)
	}
}

// A role without rights gets the SQL that mends each lack.
func TestALimitedRoleGetsTheFix(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	role := "r_" + dbs[0].Name
	dbs[0].Exec(t, schema+"CREATE ROLE "+role+" LOGIN; GRANT SELECT ON account, item TO "+role+"; ALTER TABLE item ENABLE ROW LEVEL SECURITY; CREATE TRIGGER noop BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()")
	t.Cleanup(func() { dbs[0].Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	as := strings.Replace(dbs[0].DSN(), "postgres@", role+"@", 1)
	if !strings.Contains(as, role) {
		t.Fatalf("no user to replace in %s", as)
	}
	fixed := func(found []migrate.Finding, id string) {
		t.Helper()
		for _, f := range found {
			if f.ID == id && f.Fix != nil && strings.Contains(*f.Fix, role) {
				return
			}
		}
		t.Errorf("no %s with a fix for %s in %+v", id, role, found)
	}
	found := run(t, as, dbs[1].DSN(), tables)
	for _, id := range []string{"privilege.owner", "privilege.create", "table.row_security"} {
		fixed(found, id)
	}
	dbs[0].Exec(t, "ALTER TABLE item DISABLE ROW LEVEL SECURITY")
	fixed(run(t, as, dbs[1].DSN(), tables), "applied.triggers")
}

// A role that may not read hears what it lacks, of partitions too.
func TestARoleThatMayNotReadGetsTheFix(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	role := "r_" + dbs[0].Name
	owner := "o_" + dbs[0].Name
	dbs[0].Exec(t, schema+"CREATE ROLE "+role+" LOGIN; CREATE ROLE "+owner+`; CREATE SCHEMA hidden; CREATE TABLE hidden.log (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE hidden.log_1 PARTITION OF hidden.log DEFAULT; ALTER TABLE hidden.log_1 OWNER TO `+owner)
	t.Cleanup(func() {
		dbs[0].Exec(t, "DROP OWNED BY "+role+", "+owner+" CASCADE; DROP ROLE "+role+", "+owner)
	})
	as := strings.Replace(dbs[0].DSN(), "postgres@", role+"@", 1)
	found := run(t, as, dbs[1].DSN(), tables+"\n  - {name: hidden.log, key: id}")
	for _, want := range []string{"privilege.owner public.account", "privilege.owner public.item", "privilege.owner hidden.log", "privilege.owner hidden.log_1", "privilege.read hidden.log"} {
		if !slices.ContainsFunc(found, func(f migrate.Finding) bool { return f.ID+" "+f.Object == want && f.Fix != nil }) {
			t.Errorf("no %s with a fix in %+v", want, found)
		}
	}
	dbs[0].Exec(t, "GRANT ALL ON SCHEMA hidden TO "+owner+"; ALTER TABLE account OWNER TO "+owner+"; GRANT "+owner+" TO "+role+"; REVOKE SELECT ON account FROM "+owner)
	if found = run(t, as, dbs[1].DSN(), tables); !has(found, "privilege.read") {
		t.Errorf("an owner that may not read: %+v", found)
	}
}

// What the databases lack for the application is said before anything is copied.
func TestWhatADatabaseLacksForTheApplication(t *testing.T) {
	t.Parallel()
	source, db := pgtest.NewDatabase(t), pgtest.NewCluster(t, pgtest.ClusterOptions{}).NewDatabase(t)
	app, reader := "app_"+source.Name, "reader_"+source.Name
	source.Exec(t, schema+fmt.Sprintf(`CREATE ROLE %[1]s; CREATE ROLE %[2]s; GRANT SELECT ON item TO %[1]s; CREATE SCHEMA ref; GRANT USAGE ON SCHEMA ref TO %[1]s, %[2]s; CREATE TABLE ref.code (id serial PRIMARY KEY);
		CREATE POLICY p ON account TO %[2]s USING (true)`, app, reader))
	t.Cleanup(func() { source.Exec(t, fmt.Sprintf("DROP OWNED BY %[1]s, %[2]s; DROP ROLE %[1]s, %[2]s", app, reader)) })
	spec := tables + "\n  - {name: ref.code, everywhere: true}"
	want := func(dsn, id string, severity migrate.Severity, object, fix string) {
		t.Helper()
		found := run(t, source.DSN(), dsn, spec)
		if !slices.ContainsFunc(found, func(f migrate.Finding) bool {
			return f.ID == id && f.Severity == severity && f.Object == object && f.Fix != nil && strings.Contains(*f.Fix, fix)
		}) {
			t.Errorf("no %s of %s with %s in %+v", id, object, fix, found)
		}
	}
	want(db.DSN(), "role.missing", migrate.SeverityError, "db0", `CREATE ROLE "`+reader+`"`)
	want(db.DSN(), "role.missing", migrate.SeverityWarning, "db0", `CREATE ROLE "`+app+`"`)
	db.Exec(t, "CREATE ROLE "+app+"; CREATE SCHEMA ref; CREATE ROLE limited LOGIN; GRANT CREATE ON DATABASE "+db.Name+" TO limited")
	want(db.DSN(), "schema.usage", migrate.SeverityWarning, `db0."ref"`, app)
	want(strings.Replace(db.DSN(), "postgres@", "limited@", 1), "privilege.create", migrate.SeverityError, `db0."ref"`, "limited")
	source.Exec(t, "CREATE FUNCTION sum2(int, int) RETURNS int LANGUAGE sql AS 'SELECT $1 + $2'; CREATE OPERATOR @+@ (LEFTARG = int, RIGHTARG = int, FUNCTION = sum2); ALTER TABLE item ADD CHECK ((id::int @+@ 1) > 0)")
	if found := run(t, source.DSN(), db.DSN(), spec); !has(found, "definition.not_copied") {
		t.Errorf("an operator of the user's own: %+v", found)
	}
}

func TestTooFewConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	role := "few_" + dbs[0].Name
	dbs[0].Exec(t, schema+"CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 5; ALTER TABLE account OWNER TO "+role+"; ALTER TABLE item OWNER TO "+role)
	t.Cleanup(func() { dbs[0].Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	found := run(t, strings.Replace(dbs[0].DSN(), "postgres@", role+"@", 1), dbs[1].DSN(), tables)
	if !slices.ContainsFunc(found, func(f migrate.Finding) bool {
		return f.ID == "connections.role" && f.Object == "source" && f.Severity == migrate.SeverityError && strings.Contains(*f.Fix, "CONNECTION LIMIT 26")
	}) {
		t.Errorf("findings %+v", found)
	}
}

func TestPoolerInBetweenIsRefused(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 2)
	dbs[0].Exec(t, schema)
	b := pgtest.NewPgBouncer(t, "app = "+keywords(t, dbs[0].DSN()))
	found := run(t, b.DSN("app"), dbs[1].DSN(), tables)
	if !has(found, "connect.pooler") {
		t.Errorf("findings %+v", found)
	}
}

// keywords turns a URL into what a pooler's file says.
func keywords(t *testing.T, dsn string) string {
	t.Helper()
	var port int
	var name string
	rest := dsn[strings.LastIndex(dsn, ":")+1:]
	if _, err := fmt.Sscanf(strings.NewReplacer("/", " ", "?", " ").Replace(rest), "%d %s", &port, &name); err != nil {
		t.Fatalf("dsn %s: %v", dsn, err)
	}
	return fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s", port, name)
}

func TestAnotherMigrationHasTheTable(t *testing.T) {
	t.Parallel()
	found := survey(t, schema+`CREATE SCHEMA shardctl; CREATE TABLE shardctl.captured (migration text, table_no int, schema_name text, table_name text);
	CREATE TABLE shardctl.migration (name text, phase text); INSERT INTO shardctl.migration VALUES ('other', 'installed'); INSERT INTO shardctl.captured VALUES ('other', 1, 'public', 'item')`, "", tables)
	if !has(found, "table.other_migration") {
		t.Errorf("findings %+v", found)
	}
}

func TestKeepOnSeveralDatabasesIsRefused(t *testing.T) {
	t.Parallel()
	found := surveyOfTwo(t, "CREATE TABLE s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account_id bigint NOT NULL)", "sequences: keep")
	if !has(found, "sequence.keep") {
		t.Errorf("findings %+v", found)
	}
}

// TestALaneWithTooFewValuesIsRefused, by the sequence's bounds or by its column's, and
// counted in blocks of what the sequence steps by.
func TestALaneWithTooFewValuesIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql string
		full      bool
	}{
		{"room", "CREATE TABLE s (id serial PRIMARY KEY, account_id bigint NOT NULL)", false},
		{"smallint", "CREATE TABLE s (id smallserial PRIMARY KEY, account_id bigint NOT NULL); SELECT setval('s_id_seq', 32700)", true},
		{"a bigint sequence of an int column", "CREATE SEQUENCE q; CREATE TABLE s (id int DEFAULT nextval('q') PRIMARY KEY, account_id bigint NOT NULL); SELECT setval('q', 2147483600)", true},
		{"blocks", "CREATE TABLE s (id serial PRIMARY KEY, account_id bigint NOT NULL); ALTER SEQUENCE s_id_seq INCREMENT BY 1000000; SELECT setval('s_id_seq', 2000000000)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := surveyOfTwo(t, c.sql, "")
			if has(found, "sequence.exhausted") != c.full {
				t.Errorf("findings %+v", found)
			}
		})
	}
}

// surveyOfTwo runs all checks over a source with a table s and two databases.
func surveyOfTwo(t *testing.T, sql, more string) []migrate.Finding {
	t.Helper()
	dbs := pgtest.NewDatabases(t, 3)
	dbs[0].Exec(t, schema+sql)
	text := fmt.Sprintf("version: 1\nmigration: m\nsource: {dsn: %q}\ndatabases:\n  db0: {dsn: %q}\n  db1: {dsn: %q}\nshards: {count: 4, schema: \"s_%%d\", hash: postgres, placement: {db0: 0-1, db1: 2-3}}\ntables:\n  - {name: s, key: account_id}\n%s\n",
		dbs[0].DSN(), dbs[1].DSN(), dbs[2].DSN(), more)
	spec, err := migrate.Decode("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	found, s, err := preflight.Run(t.Context(), spec)
	defer s.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func has(found []migrate.Finding, id string) bool {
	for _, f := range found {
		if f.ID == id {
			return true
		}
	}
	return false
}

func TestAnEntryWithoutASchemaIsNamed(t *testing.T) {
	t.Parallel()
	const topology = "topology:\n  - driver: pgbouncer\n    instances: [{admin_dsn: postgres://127.0.0.1:1/pgbouncer, databases_file: /nowhere}]\n    entries: [{database: %s}]"
	for name, want := range map[string]bool{"app": true, "app_%03d": false} {
		found := survey(t, schema, "", tables, fmt.Sprintf(topology, name))
		got := slices.ContainsFunc(found, func(f migrate.Finding) bool { return f.ID == "router.no_schema" && f.Object == name })
		if got != want {
			t.Errorf("entry %s: found %v, want %v: %+v", name, got, want, found)
		}
	}
}
