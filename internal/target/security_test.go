package target_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// guarded has grants of all kinds and a policy that reads another table; APP
// stands for a role.
const guarded = `
CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO APP WITH GRANT OPTION;
CREATE FUNCTION s.who() RETURNS text LANGUAGE sql STABLE AS 'SELECT current_setting(''app.user'', true)';
REVOKE ALL ON FUNCTION s.who() FROM PUBLIC; GRANT EXECUTE ON FUNCTION s.who() TO APP;
CREATE TABLE s.space (id serial PRIMARY KEY, owner text, secret text);
CREATE TABLE s.page (id int PRIMARY KEY, space int NOT NULL REFERENCES s.space, title text);
ALTER TABLE s.space OWNER TO APP; ALTER TABLE s.page ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT ON s.page TO APP; GRANT SELECT (id) ON s.space TO PUBLIC;
CREATE POLICY mine ON s.page FOR ALL TO APP USING (EXISTS (SELECT FROM s.space WHERE space.id = page.space AND space.owner = s.who()));
CREATE POLICY never ON s.page AS RESTRICTIVE FOR INSERT WITH CHECK (title <> 's.space');
`

func guardedSpec() *migrate.Spec {
	return &migrate.Spec{
		Migration: "m",
		Databases: []migrate.Database{{Name: "db0"}},
		Shards:    migrate.Shards{Count: 2, Schema: "t%d", Hash: "postgres", Placement: []string{"db0", "db0"}},
		Tables: []migrate.Table{
			{Name: name("s", "page"), Key: migrate.Key{From: name("s", "space"), Via: "space"}},
			{Name: name("s", "space"), Key: migrate.Key{Column: "id"}},
		},
	}
}

func TestOwnersGrantsAndRowSecurity(t *testing.T) {
	t.Parallel()
	r := newRig(t, "SELECT 1", &migrate.Spec{Migration: "none"}, "db0")
	app := "app_" + r.source.Name
	r.source.Exec(t, "CREATE ROLE "+app)
	t.Cleanup(func() {
		r.databases["db0"].Exec(t, "DROP OWNED BY "+app+" CASCADE")
		r.source.Exec(t, "DROP OWNED BY "+app+" CASCADE; DROP ROLE "+app)
	})
	r.source.Exec(t, strings.ReplaceAll(guarded, "APP", app))
	r.load(t, guardedSpec())
	r.prepare(t, "db0")
	r.finish(t, "db0")
	r.turn(t, "db0", target.Open)
	db := r.databases["db0"]
	show(t, db, `SELECT relname, pg_get_userbyid(relowner) = '`+app+`', relrowsecurity FROM pg_class WHERE relnamespace = 't1'::regnamespace AND relkind = 'r' ORDER BY 1`,
		"page|f|t", "space|t|f")
	show(t, db, `SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE polname = 'mine' AND polrelid = 't1.page'::regclass`,
		"(EXISTS ( SELECT\n   FROM t1.space\n  WHERE ((space.id = page.space) AND (space.owner = s.who()))))")

	space := r.source.Value(t, "SELECT min(k) FROM generate_series(1, 100) k WHERE "+r.layout.ShardSQL(r.layout.Tables[1], "k")+" = 1")
	as := "SET ROLE " + app + "; SET search_path = t1, s; SELECT set_config('app.user', 'ann', false)"
	expect(t, db, as, "INSERT INTO space VALUES ("+space+", 'ann'), ("+space+" + 0, 'bob') ON CONFLICT DO NOTHING", "")
	expect(t, db, as, "INSERT INTO page VALUES (1, "+space+", 'x')", "")
	expect(t, db, as, "INSERT INTO page VALUES (2, "+space+", 's.space')", "42501")
	expect(t, db, strings.Replace(as, "ann", "eve", 1), "INSERT INTO page VALUES (3, "+space+", 'x')", "42501")
	expect(t, db, as, "DELETE FROM page", "42501")
	expect(t, db, as, "SELECT nextval('s.space_id_seq')", "")
	show(t, db, "SELECT has_function_privilege('public', 's.who()', 'EXECUTE'), has_function_privilege('"+app+"', 's.who()', 'EXECUTE'), has_column_privilege('public', 't0.space', 'id', 'SELECT'), has_table_privilege('public', 't0.space', 'SELECT')",
		"f|t|t|f")
}

func TestPoliciesThatCannotFollow(t *testing.T) {
	t.Parallel()
	spec := guardedSpec()
	spec.Tables[1].As = "room"
	r := newRig(t, "SELECT 1", &migrate.Spec{Migration: "none"}, "db0")
	app := "app2_" + r.source.Name
	r.source.Exec(t, "CREATE ROLE "+app)
	t.Cleanup(func() { r.source.Exec(t, "DROP OWNED BY "+app+" CASCADE; DROP ROLE "+app) })
	r.source.Exec(t, strings.ReplaceAll(guarded, "APP", app))
	r.load(t, spec)
	refused(t, r.tryPrepare("db0"), "policy.reads_table", "s.page")
}
