package auditlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// everyPlace runs SQL on each database at each place, with % as the quoted schema.
func (r *rig) everyPlace(t testing.TB, sql string) {
	t.Helper()
	for i, d := range r.dbs {
		for _, loc := range r.spec.LocationsOf(r.name(i)) {
			d.Exec(t, strings.ReplaceAll(sql, "%", `"`+loc.Schema+`"`))
		}
	}
}

func TestARowThatIsRefusedIsKeptAndStopsNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.everyPlace(t, "ALTER TABLE %.block ADD CONSTRAINT short CHECK (length(body) < 10)")
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, CASE WHEN g IN (13, 14) THEN repeat('long', 5) ELSE 'ok' END FROM generate_series(1, 60) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 60) g")
	r.level(t)
	parked := append(quarantine(t, r.dbs[0]), quarantine(t, r.dbs[1])...)
	keys := []string{}
	for _, p := range parked {
		f := strings.Split(p, "|")
		keys = append(keys, f[3]+f[4])
	}
	slices.Sort(keys)
	if got := strings.Join(keys, " "); got != `["13"]rejected ["14"]rejected` {
		t.Fatalf("in quarantine: %s", got)
	}
	if n := r.count(t, "block"); n != 58 {
		t.Errorf("%d rows of 58 passed", n)
	}
	// Others go on, also in the batch that holds the bad key again.
	r.source.Exec(t, "UPDATE public.block SET workspace_id = workspace_id + 1; UPDATE public.block SET body = 'mended' WHERE id = 13")
	r.level(t)
	if n := r.count(t, "block"); n != 59 {
		t.Errorf("%d rows of 59 passed", n)
	}
	if err := r.applier.Blocked(t.Context(), nil, false); err == nil || !strings.Contains(err.Error(), `["14"] of public.block`) || migrate.ExitCode(err) != 4 {
		t.Errorf("blocked: %v", err)
	}
	r.source.Exec(t, "DELETE FROM public.block WHERE id = 14; DELETE FROM public.comment WHERE block_id = 14")
	r.level(t)
	r.want(t)
	if err := r.applier.Blocked(t.Context(), nil, false); err != nil {
		t.Errorf("still blocked: %v", err)
	}
}

// TestAValueThatCannotBeStaged: the staging table has the written types.
func TestAValueThatCannotBeStaged(t *testing.T) {
	t.Parallel()
	ddl := `CREATE DOMAIN public.mood AS text; CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body public.mood, n varchar(9), c char(3), b bit(3))`
	tables := blocks()[:1]
	r := newRig(t, rigSpec{ddl: ddl, tables: tables, databases: 1, schema: "app"})
	r.dbs[0].Exec(t, "ALTER DOMAIN app.mood ADD CONSTRAINT known CHECK (value <> 'new')")
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, CASE WHEN g = 7 THEN 'new' ELSE 'ok' END, 'n', 'ab', B'101' FROM generate_series(1, 20) g")
	r.level(t)
	if got := quarantine(t, r.dbs[0]); len(got) != 1 || !strings.Contains(got[0], `["7"]`) {
		t.Fatalf("in quarantine: %v", got)
	}
	r.dbs[0].Exec(t, "ALTER DOMAIN app.mood DROP CONSTRAINT known")
	r.level(t)
	if got := quarantine(t, r.dbs[0]); len(got) != 0 {
		t.Fatalf("still in quarantine: %v", got)
	}
	r.want(t)
}

func TestRowsWithoutAKey(t *testing.T) {
	t.Parallel()
	tables := blocks()
	tables[0].NullKeys = migrate.Stray{Policy: "shard", Shard: 3}
	tables[1].Orphans, tables[1].NullKeys = migrate.Stray{Policy: "refuse"}, migrate.Stray{Policy: "refuse"}
	r := newRig(t, rigSpec{tables: tables[:1], ddl: `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint, body text)`})
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, NULL, 'shard 3'), (2, 5, 'x')")
	r.level(t)
	r.want(t)
	if got := r.dbs[1].Value(t, "SELECT count(*) FROM shard_3.block WHERE id = 1"); got != "1" {
		t.Error("a row without a key is not at its shard")
	}
	r.source.Exec(t, "UPDATE public.block SET workspace_id = 5 WHERE id = 1; UPDATE public.block SET workspace_id = NULL WHERE id = 2")
	r.level(t)
	r.want(t)

	r = newRig(t, rigSpec{})
	r.source.Exec(t, "INSERT INTO public.comment VALUES (1, 77, 'orphan'), (2, NULL, 'no via')")
	r.level(t)
	for _, d := range r.dbs {
		if got := quarantine(t, d); len(got) != 2 || !strings.HasSuffix(got[0], `|["1"]|no shard key`) {
			t.Errorf("orphans are refused, in quarantine: %v", got)
		}
	}
	r.source.Exec(t, "INSERT INTO public.block VALUES (77, 1, 'parent'); UPDATE public.comment SET block_id = 77 WHERE id = 2")
	r.level(t)
	r.want(t)
	for _, d := range r.dbs {
		if got := quarantine(t, d); len(got) != 0 {
			t.Errorf("the orphan has a parent by now, in quarantine: %v", got)
		}
	}
}

func TestUniqueValuesChangeHands(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ column, on string }{
		"an expression":      {"", "(lower(body)) WHERE body <> 'free'"},
		"a generated column": {`, "Low er" text GENERATED ALWAYS AS (lower(body)) STORED`, `("Low er") WHERE "Low er" <> 'free'`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSpec{databases: 1, schema: "app", batch: 3, tables: blocks()[:1],
				ddl: `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body text` + c.column + `)`})
			r.source.Exec(t, "CREATE UNIQUE INDEX ON public.block "+c.on)
			r.dbs[0].Exec(t, "CREATE UNIQUE INDEX ON app.block "+c.on)
			uniqueValuesChangeHands(t, r)
		})
	}
}

func uniqueValuesChangeHands(t *testing.T, r *rig) {
	steps := []string{
		"INSERT INTO public.block SELECT g, g, 'u' || g FROM generate_series(1, 12) g",
		// A swap, with no free moment in between, in one transaction.
		"BEGIN; UPDATE public.block SET body = 'tmp' WHERE id = 1; UPDATE public.block SET body = 'u1' WHERE id = 2; UPDATE public.block SET body = 'u2' WHERE id = 1; COMMIT",
		// A hand-over to a row with a lower key, and from a deleted one.
		"UPDATE public.block SET body = 'new' WHERE id = 12; UPDATE public.block SET body = 'U12' WHERE id = 3; DELETE FROM public.block WHERE id = 11; UPDATE public.block SET body = 'u11' WHERE id = 4",
	}
	for _, sql := range steps {
		r.source.Exec(t, sql)
		r.level(t)
		r.want(t)
	}
	// A ring of all rows, one transaction each: whatever the cut, the row that holds
	// the value lies beyond it.
	r.source.Exec(t, "UPDATE public.block SET body = 'spare' WHERE id = 1")
	for id := 2; id <= 10; id++ {
		r.source.Exec(t, fmt.Sprintf("UPDATE public.block SET body = 'ring' || id WHERE id = %d", id))
	}
	r.level(t)
	for id := 2; id <= 9; id++ {
		r.source.Exec(t, fmt.Sprintf("UPDATE public.block SET body = 'x' || id WHERE id = %d", id+1))
		r.source.Exec(t, fmt.Sprintf("UPDATE public.block SET body = 'ring%d' WHERE id = %d", id+1, id))
	}
	cuts := 0
	for tick := r.tick(t)[0]; tick.Cut; tick = r.tick(t)[0] {
		cuts++
		if tick.Parked > 0 {
			t.Errorf("rows beyond the cut sent others into quarantine: %v", quarantine(t, r.dbs[0]))
		}
	}
	if cuts == 0 {
		t.Error("the batch was not cut")
	}
	r.want(t)
	if got := quarantine(t, r.dbs[0]); len(got) != 0 {
		t.Errorf("in quarantine: %v", got)
	}
}

// TestAUniqueOnlyTheDatabaseHas keeps the newcomer out, and lets it in later.
func TestAUniqueOnlyTheDatabaseHas(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1, schema: "app"})
	r.dbs[0].Exec(t, "CREATE UNIQUE INDEX ON app.plan (name)")
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'a'), (2, 'b')")
	r.level(t)
	r.source.Exec(t, "INSERT INTO public.plan VALUES (3, 'a'), (4, 'c'); UPDATE public.plan SET name = 'bb' WHERE id = 2")
	r.level(t)
	if got := quarantine(t, r.dbs[0]); len(got) != 1 || !strings.HasSuffix(got[0], `|["3"]|unique`) {
		t.Fatalf("in quarantine: %v", got)
	}
	if got := r.dbs[0].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM app.plan"); got != "1a,2bb,4c" {
		t.Errorf("plans: %s", got)
	}
	r.source.Exec(t, "DELETE FROM public.plan WHERE id = 1")
	r.level(t)
	r.level(t)
	r.want(t)
}

// TestWithoutReplicaRole: foreign keys are deferred, and what violates them is
// kept out.
func TestWithoutReplicaRole(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1, schema: "app"})
	d := r.dbs[0]
	r.source.Exec(t, "ALTER TABLE public.comment ADD FOREIGN KEY (block_id) REFERENCES public.block")
	d.Exec(t, `ALTER TABLE app.comment ADD FOREIGN KEY (block_id) REFERENCES app.block DEFERRABLE INITIALLY DEFERRED`)
	a := r.ordinary(t)
	forward := func() {
		t.Helper()
		if _, err := a.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'b' FROM generate_series(1, 20) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g")
	forward()
	r.want(t)
	// A parent that is deleted and its children, and children that change parents.
	r.source.Exec(t, "UPDATE public.comment SET block_id = 2 WHERE block_id = 1; DELETE FROM public.block WHERE id = 1; INSERT INTO public.block VALUES (30, 3, 'b'); UPDATE public.comment SET block_id = 30 WHERE id = 5")
	forward()
	r.want(t)
	// The database refuses a parent: its children stay out with it.
	d.Exec(t, "ALTER TABLE app.block ADD CHECK (body <> 'bad')")
	r.source.Exec(t, "INSERT INTO public.block VALUES (40, 1, 'bad'), (41, 1, 'good'); INSERT INTO public.comment VALUES (40, 40, 'c'), (41, 41, 'c')")
	forward()
	got := quarantine(t, d)
	if len(got) != 2 || !strings.HasSuffix(got[0], `|1|["40"]|rejected`) || !strings.HasSuffix(got[1], `|2|["40"]|foreign key`) {
		t.Fatalf("in quarantine: %v", got)
	}
	r.source.Exec(t, "UPDATE public.block SET body = 'mended' WHERE id = 40")
	forward()
	forward()
	r.want(t)
	if got := quarantine(t, d); len(got) != 0 {
		t.Errorf("in quarantine: %v", got)
	}
}

// ordinary gives an applier whose role on the first database, which has its tables in app,
// may not have foreign keys pass it by.
func (r *rig) ordinary(t testing.TB) *auditlog.Applier {
	t.Helper()
	d := r.dbs[0]
	role := "r_" + d.Name
	d.Exec(t, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN; GRANT ALL ON SCHEMA app, shardctl TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA app TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA shardctl TO %[1]s;
		GRANT ALL ON ALL SEQUENCES IN SCHEMA shardctl TO %[1]s`, role))
	t.Cleanup(func() { d.Exec(t, fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", role)) })
	r.spec.Databases[0].DSN = migrate.Secret(as(d.DSN(), role))
	return r.newApplierFor(t, r.spec.Databases[0].DSN)
}

func as(dsn, role string) string {
	return dsn[:strings.Index(dsn, "//")+2] + role + dsn[strings.Index(dsn, "@"):]
}

// TestEverywhereRowsThatADatabaseRefersTo are not deleted under it.
func TestEverywhereRowsThatADatabaseRefersTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	r.level(t)
	r.everyPlace(t, "ALTER TABLE %.block ADD COLUMN plan_id int REFERENCES public.plan")
	r.own(t, "db0")
	r.source.Exec(t, "SELECT 1")
	r.dbs[0].Exec(t, "INSERT INTO shard_0.block VALUES (1, 1, 'x', 2)")
	r.source.Exec(t, "DELETE FROM public.plan WHERE id = 1; DELETE FROM public.plan WHERE id = 2; UPDATE public.plan SET name = 'cc' WHERE id = 3; UPDATE public.plan SET id = 9 WHERE id = 2")
	r.level(t)
	if got := r.dbs[0].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM public.plan"); got != "2b,3cc" {
		t.Errorf("plans of the database that refers to one: %s", got)
	}
	if got := r.dbs[1].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM public.plan"); got != "3cc" {
		t.Errorf("plans of the other: %s", got)
	}
	if got := quarantine(t, r.dbs[0]); len(got) != 1 || !strings.HasSuffix(got[0], `|["2"]|still referenced`) {
		t.Fatalf("in quarantine: %v", got)
	}
	r.source.Exec(t, "INSERT INTO public.plan VALUES (20, 'z'); TRUNCATE public.plan; INSERT INTO public.plan VALUES (3, 'cc')")
	r.level(t)
	if got := r.dbs[0].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM public.plan"); got != "2b,3cc" {
		t.Errorf("after a truncate: %s", got)
	}
	r.dbs[0].Exec(t, "DELETE FROM shard_0.block")
	r.level(t)
	if got := r.dbs[0].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM public.plan") + fmt.Sprint(quarantine(t, r.dbs[0])); got != "3cc[]" {
		t.Errorf("once nothing refers to it: %s", got)
	}
}

// TestNoActionOfAForeignKeyTakesRowsOfAnOwner: rows of an everywhere table that exchange a
// unique value wait, where deleting them would take the rows that refer to them along.
func TestNoActionOfAForeignKeyTakesRowsOfAnOwner(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]string{"cascade": "CASCADE", "set null": "SET NULL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSpec{databases: 1, schema: "app"})
			d := r.dbs[0]
			d.Exec(t, "CREATE UNIQUE INDEX ON app.plan (name); ALTER TABLE app.block ADD COLUMN plan_id int REFERENCES app.plan ON DELETE "+action)
			r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			r.level(t)
			r.own(t, "db0")
			d.Exec(t, "INSERT INTO app.block VALUES (1, 1, 'x', 1), (2, 1, 'x', 2)")
			a := r.ordinary(t)
			forward := func() {
				t.Helper()
				_, err := a.Forward(t.Context())
				must(t, err)
			}
			r.source.Exec(t, "UPDATE public.plan SET name = 'swap' WHERE id = 1; UPDATE public.plan SET name = 'a' WHERE id = 2; UPDATE public.plan SET name = 'b' WHERE id = 1; DELETE FROM public.plan WHERE id = 3")
			forward()
			if got := d.Value(t, "SELECT string_agg(id || ':' || plan_id, ',' ORDER BY id) FROM app.block"); got != "1:1,2:2" {
				t.Fatalf("rows of the owner: %s", got)
			}
			if got := quarantine(t, d); len(got) != 2 {
				t.Errorf("in quarantine: %v", got)
			}
			r.source.Exec(t, "UPDATE public.plan SET name = 'free' WHERE id = 1")
			forward()
			forward()
			if got := d.Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM app.plan") + fmt.Sprint(quarantine(t, d)); got != "1free,2a[]" {
				t.Errorf("once they do not exchange any more: %s", got)
			}
		})
	}
}

// TestARowIsReferredToWhileItsDeleteIsApplied: the delete waits for who is about to refer
// to the row, and then leaves it.
func TestARowIsReferredToWhileItsDeleteIsApplied(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'a'), (2, 'b')")
	r.level(t)
	r.everyPlace(t, "ALTER TABLE %.block ADD COLUMN plan_id int REFERENCES public.plan ON DELETE CASCADE")
	r.own(t, "db0")
	r.source.Exec(t, "DELETE FROM public.plan")
	r.whileATickWaitsOn(t, r.dbs[0], "INSERT INTO shard_0.block VALUES (1, 1, 'x', 2)")
	if got := r.dbs[0].Value(t, "SELECT string_agg(id || name, ',' ORDER BY id) FROM public.plan"); got != "2b" {
		t.Errorf("plans: %s", got)
	}
	if got := quarantine(t, r.dbs[0]); len(got) != 1 || !strings.HasSuffix(got[0], `|["2"]|still referenced`) {
		t.Errorf("in quarantine: %v", got)
	}
}

// TestStrayWrites to shards that have moved are recorded, not applied.
func TestStrayWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 20) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g")
	r.level(t)
	r.own(t, "db0")
	mine := r.dbs[0].Rows(t, "SELECT id FROM shard_0.block UNION SELECT id FROM shard_1.block ORDER BY 1")
	if len(mine) < 3 {
		t.Fatalf("db0 has %v", mine)
	}
	r.source.Exec(t, fmt.Sprintf("UPDATE public.block SET body = 'stray' WHERE id = %s; DELETE FROM public.comment WHERE id = %s; UPDATE public.block SET body = 'fine' WHERE id = %s", mine[0], mine[1], other(mine)))
	ticks := r.tick(t)
	if ticks[0].Strays != 2 || ticks[1].Strays != 0 {
		t.Errorf("strays: %+v", ticks)
	}
	if got := r.source.Rows(t, `SELECT database, table_no, key, "row"->>'body' FROM shardctl.stray ORDER BY table_no`); !slices.Equal(got, []string{
		fmt.Sprintf(`db0|1|["%s"]|stray`, mine[0]), fmt.Sprintf(`db0|2|["%s"]|NULL`, mine[1])}) {
		t.Errorf("recorded: %v", got)
	}
	if got := r.dbs[0].Value(t, "SELECT count(*) FROM (SELECT body FROM shard_0.block UNION ALL SELECT body FROM shard_1.block) b WHERE body = 'stray'"); got != "0" {
		t.Error("a stray write was applied")
	}
	if got := r.dbs[1].Value(t, "SELECT count(*) FROM (SELECT body FROM shard_2.block UNION ALL SELECT body FROM shard_3.block) b WHERE body = 'fine'"); got != "1" {
		t.Error("a write to a shard of the source was not applied")
	}
	// After a start it is not known where a child was that is gone: the database is asked.
	r.applier.Close(t.Context())
	r.source.Exec(t, fmt.Sprintf("DELETE FROM public.comment WHERE id IN (%s, %s)", mine[2], other(mine)))
	if ticks = r.tick(t); ticks[0].Strays != 1 || ticks[1].Strays != 0 {
		t.Errorf("strays among children: %+v", ticks)
	}
	if got := r.source.Value(t, "SELECT key FROM shardctl.stray ORDER BY id DESC LIMIT 1"); got != fmt.Sprintf(`["%s"]`, mine[2]) {
		t.Errorf("recorded: %s", got)
	}
}

func other(mine []string) string {
	for id := 1; ; id++ {
		if !slices.Contains(mine, fmt.Sprint(id)) {
			return fmt.Sprint(id)
		}
	}
}

func TestTombstonesAreWrittenWhereDeletesAreIssued(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1, count: 4})
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 9) g")
	r.level(t)
	r.source.Exec(t, "DELETE FROM public.block WHERE id = 1; UPDATE public.block SET workspace_id = workspace_id + 1 WHERE id = 2; DELETE FROM public.block WHERE id = 1000; UPDATE public.block SET body = 'y' WHERE id = 3")
	r.tick(t)
	tick := r.source.Value(t, "SELECT max(tick) FROM shardctl.marker")
	places := func(id int) string {
		return strings.Join(r.dbs[0].Rows(t, fmt.Sprintf(`SELECT loc FROM shardctl."m_tomb_1" WHERE k1 = %d AND tick = %s ORDER BY loc`, id, tick)), ",")
	}
	shard := func(key int) string {
		return "shard_" + r.source.Value(t, "SELECT "+r.layout.ShardSQL(r.layout.Tables[0], fmt.Sprint(key, "::bigint")))
	}
	if got := places(1); got != shard(1) {
		t.Errorf("tombstones of a deleted row: %s, it was at %s", got, shard(1))
	}
	want := shard(2)
	if shard(3) == want {
		want = ""
	}
	if got := places(2); got != want {
		t.Errorf("tombstones of a moved row: %s, it was at %s", got, want)
	}
	if got := places(3); got != "" {
		t.Errorf("tombstones of an updated row: %s", got)
	}
	// A key whose place is not known is deleted everywhere but where it is.
	r.source.Exec(t, `INSERT INTO shardctl."m_log_1_0" (op, n1) VALUES ('R', 3), ('R', 500)`)
	r.dbs[0].Exec(t, "INSERT INTO shard_0.block VALUES (500, 1, 'extra'); INSERT INTO shard_1.block VALUES (500, 1, 'extra')")
	r.tick(t)
	tick = r.source.Value(t, "SELECT max(tick) FROM shardctl.marker")
	if got := places(500); got != "*" {
		t.Errorf("tombstones of a key at no known place: %s", got)
	}
	r.want(t)
}

var _ = pgtest.Main
