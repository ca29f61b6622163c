package auditlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// at is the schema of the shard that a key maps to, and the database.
func (r *rig) at(t testing.TB, key int) (schema string, db int) {
	t.Helper()
	shard := r.source.Value(t, "SELECT "+r.layout.ShardSQL(r.layout.Tables[0], fmt.Sprint(key, "::bigint")))
	var n int
	if _, err := fmt.Sscan(shard, &n); err != nil {
		t.Fatal(err)
	}
	loc := r.spec.LocationOf(n)
	for i := range r.dbs {
		if r.name(i) == loc.Database {
			db = i
		}
	}
	return loc.Schema, db
}

// write runs SQL where a key lives, with % as the quoted schema.
func (r *rig) write(t testing.TB, key int, sql string) {
	t.Helper()
	schema, db := r.at(t, key)
	r.dbs[db].Exec(t, strings.ReplaceAll(sql, "%", `"`+schema+`"`))
}

// backLevel ticks back until nothing is cut.
func (r *rig) backLevel(t testing.TB) {
	t.Helper()
	for range 1000 {
		if !slices.ContainsFunc(r.back(t), func(k auditlog.Tick) bool { return k.Cut }) {
			return
		}
	}
	t.Fatal("a thousand ticks back, and still cut")
}

// moved is a rig whose shards are the databases'.
func moved(t testing.TB, rs rigSpec, sql string) *rig {
	t.Helper()
	r := newRig(t, rs)
	r.source.Exec(t, sql)
	r.level(t)
	r.want(t)
	r.own(t)
	return r
}

const twenty = "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 20) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g"

func TestTicksBack(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"shard_%d", "app"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			r := moved(t, rigSpec{schema: schema, batch: 5}, twenty)
			for k := 1; k <= 20; k++ {
				r.write(t, k, fmt.Sprintf("UPDATE %%.block SET body = 'on the database' WHERE id = %d AND mod(id, 2) = 0", k))
				r.write(t, k, fmt.Sprintf("INSERT INTO %%.block VALUES (%d, %d, 'new'); INSERT INTO %%.comment VALUES (%[1]d, %[1]d, E'new\\t\\n'), (%[3]d, %[2]d, 'more')", k+100, k, k+200))
			}
			r.write(t, 3, "DELETE FROM %.comment WHERE block_id = 3; DELETE FROM %.block WHERE id = 3")
			r.write(t, 4, "UPDATE %.block SET id = 400 WHERE id = 4; UPDATE %.comment SET block_id = 400 WHERE block_id = 4")
			r.write(t, 5, "DELETE FROM %.block WHERE id = 5; INSERT INTO %.block VALUES (5, 5, 'reinserted')")
			r.backLevel(t)
			r.want(t)
			for i := range r.dbs {
				if got := quarantine(t, r.source); len(got) > 0 {
					t.Errorf("db%d: in quarantine: %v", i, got)
				}
			}
			// What an applier wrote is not captured: nothing comes back in a circle.
			if ticks := r.tick(t); ticks[0].Entries+ticks[1].Entries != 0 {
				t.Errorf("the forward log has what was applied back: %+v", ticks)
			}
			// There and back again: each direction goes on from where it stood.
			r.giveBack(t)
			r.source.Exec(t, "UPDATE public.block SET body = 'on the source again' WHERE id < 10; DELETE FROM public.comment WHERE id > 210")
			r.level(t)
			r.want(t)
			r.own(t)
			r.write(t, 6, "UPDATE %.block SET body = 'and once more' WHERE id = 6")
			ticks := r.back(t)
			if n := ticks[0].Entries + ticks[1].Entries; n != 1 {
				t.Errorf("%d entries after a rollback and a second cutover, one was written", n)
			}
			r.want(t)
		})
	}
}

// TestReverse goes through interleavings on one migration with shards on two
// databases, and on one with all of them in schemas of one.
func TestReverse(t *testing.T) {
	t.Parallel()
	for databases, tests := range map[int]map[string]func(*testing.T, *rig){
		2: {"equal keys": equalKeys, "rows of the source": rowsOfTheSource, "orphans": orphansGoBack},
		1: {"keys move": keysMove, "truncate of one location": truncateOfOneLocation, "repairs": repairs},
	} {
		schema := map[int]string{1: "shard_%d", 2: "app"}[databases]
		r := newRig(t, rigSpec{databases: databases, schema: schema})
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				r.clear(t)
				r.source.Exec(t, twenty)
				r.level(t)
				r.own(t)
				test(t, r)
			})
		}
	}
}

// equalKeys: one must not overwrite the other on the source.
func equalKeys(t *testing.T, r *rig) {
	a, b := 1, 0
	_, dbA := r.at(t, a)
	for b = 2; ; b++ {
		if _, db := r.at(t, b); db != dbA {
			break
		}
	}
	r.write(t, a, fmt.Sprintf("INSERT INTO %%.block VALUES (500, %d, 'first')", a))
	r.back(t)
	r.write(t, b, fmt.Sprintf("INSERT INTO %%.block VALUES (500, %d, 'second'), (501, %d, 'other')", b, b))
	r.back(t)
	if got := r.source.Rows(t, "SELECT id, body FROM public.block WHERE id >= 500 ORDER BY id"); !slices.Equal(got, []string{"500|first", "501|other"}) {
		t.Errorf("on the source: %v", got)
	}
	if got := quarantine(t, r.source); len(got) != 1 || !strings.Contains(got[0], `|reverse|1|["500"]|`) {
		t.Fatalf("parked: %v", got)
	}
	if err := r.applier.Blocked(t.Context(), nil, true); err == nil || !strings.Contains(err.Error(), `["500"]`) {
		t.Errorf("rollback is not blocked: %v", err)
	}
	// Its delete by the other hits nothing of the first, and un-parks it.
	r.write(t, b, "DELETE FROM %.block WHERE id = 500")
	r.back(t)
	if got := r.source.Value(t, "SELECT body FROM public.block WHERE id = 500"); got != "first" || len(quarantine(t, r.source)) != 0 {
		t.Errorf("after the delete: %s, %v", got, quarantine(t, r.source))
	}
	r.want(t)
}

// rowsOfTheSource are not touched by a partly moved migration.
func rowsOfTheSource(t *testing.T, r *rig) {
	r.giveBack(t, "db1")
	mine, theirs := 0, 0
	for k := 1; k <= 20 && (mine == 0 || theirs == 0); k++ {
		if _, db := r.at(t, k); db == 0 {
			mine = k
		} else {
			theirs = k
		}
	}
	r.write(t, mine, fmt.Sprintf("INSERT INTO %%.block VALUES (%d, %d, 'not yours'); DELETE FROM %%.block WHERE id = 999; INSERT INTO %%.comment VALUES (%[1]d, %[2]d, 'nor this')", theirs, mine))
	r.write(t, theirs, "UPDATE %.block SET body = 'by whom?'")
	if _, err := r.applier.Reverse(t.Context(), "db1"); err == nil {
		t.Error("a database that owns nothing was applied back")
	}
	r.back(t, "db0")
	if got := r.source.Value(t, fmt.Sprintf("SELECT b.body || c.body FROM public.block b JOIN public.comment c USING (id) WHERE id = %d", theirs)); got != "xc" {
		t.Errorf("a row of the source was overwritten: %s", got)
	}
	if got := quarantine(t, r.source); len(got) != 2 {
		t.Errorf("parked: %v", got)
	}
	r.write(t, mine, fmt.Sprintf("DELETE FROM %%.comment WHERE id = %[1]d; DELETE FROM %%.block WHERE id = %[1]d", theirs))
	r.back(t, "db0")
	if got := r.source.Value(t, fmt.Sprintf("SELECT count(*) FROM public.block WHERE id = %d", theirs)); got != "1" || len(quarantine(t, r.source)) != 0 {
		t.Errorf("a row of the source was deleted, or its key is still parked: %s, %v", got, quarantine(t, r.source))
	}
}

// keysMove: the same key at another location is the
// same row; a second one beside it is not.
func keysMove(t *testing.T, r *rig) {
	from := 1
	to := 2
	for s, _ := r.at(t, from); ; to++ {
		if other, _ := r.at(t, to); other != s {
			break
		}
	}
	// Moved, as an application would: delete here, insert there; its child too.
	r.write(t, from, "DELETE FROM %.comment WHERE id = 1; DELETE FROM %.block WHERE id = 1")
	r.write(t, to, fmt.Sprintf("INSERT INTO %%.block VALUES (1, %d, 'moved'); INSERT INTO %%.comment VALUES (1, 1, 'moved')", to))
	r.back(t)
	r.want(t)
	// A double: two rows with one key in two schemas.
	r.write(t, from, fmt.Sprintf("INSERT INTO %%.block VALUES (1, %d, 'double')", from))
	r.back(t)
	if got := r.source.Value(t, "SELECT body FROM public.block WHERE id = 1"); got != "moved" || len(quarantine(t, r.source)) != 1 {
		t.Errorf("a double overwrote the row: %s, %v", got, quarantine(t, r.source))
	}
	r.write(t, to, "DELETE FROM %.comment WHERE id = 1; DELETE FROM %.block WHERE id = 1")
	r.back(t)
	r.back(t)
	r.want(t)
	if got := quarantine(t, r.source); len(got) != 0 {
		t.Errorf("parked: %v", got)
	}
}

func truncateOfOneLocation(t *testing.T, r *rig) {
	schema, _ := r.at(t, 1)
	r.write(t, 1, "TRUNCATE %.block, %.comment; INSERT INTO %.block VALUES (900, 1, 'after'); INSERT INTO %.comment VALUES (900, 900, 'after')")
	r.back(t)
	r.want(t)
	if got := r.source.Value(t, "SELECT count(*) FROM public.block"); got == "1" {
		t.Errorf("the truncate of %s emptied the source", schema)
	}
}

// orphansGoBack: a database has no foreign key, its application deletes a
// parent before its children.
func orphansGoBack(t *testing.T, r *rig) {
	r.write(t, 1, "DELETE FROM %.block WHERE id = 1")
	r.write(t, 2, "DELETE FROM %.block WHERE id = 2")
	r.back(t)
	r.write(t, 1, "DELETE FROM %.comment WHERE id = 1")
	r.write(t, 2, "UPDATE %.comment SET body = 'orphan' WHERE id = 2")
	r.back(t)
	if got := r.source.Rows(t, "SELECT id, body FROM public.comment WHERE id < 3"); !slices.Equal(got, []string{"2|orphan"}) {
		t.Errorf("on the source: %v", got)
	}
	if got := quarantine(t, r.source); len(got) != 0 {
		t.Errorf("parked: %v", got)
	}
}

// repairs are re-read, at the place they name or wherever they are, by a session
// that capture skips.
func repairs(t *testing.T, r *rig) {
	schema, db := r.at(t, 1)
	r.dbs[db].Exec(t, fmt.Sprintf(`SET shardctl.applier = 'm'; UPDATE %[1]q.block SET body = 'unseen' WHERE id = 1; DELETE FROM %[1]q.comment WHERE id = 1; RESET shardctl.applier;
		INSERT INTO shardctl."m_log_1_0" (op, loc, n1) VALUES ('R', '%[1]s', 1); INSERT INTO shardctl."m_log_2_0" (op, n1) VALUES ('R', 1)`, schema))
	r.source.Exec(t, "SET shardctl.applier = 'm'; INSERT INTO public.comment VALUES (77, 2, 'not on the database'); RESET shardctl.applier")
	r.dbs[db].Exec(t, `INSERT INTO shardctl."m_log_2_1" (op, n1) VALUES ('R', 77)`)
	r.back(t)
	r.want(t)
}

// TestOddTablesGoBack: identity ALWAYS, generated columns, another column order,
// another name, a key that is equal and yet differs.
func TestOddTablesThereAndBack(t *testing.T) {
	t.Parallel()
	ddl := `CREATE TABLE public.odd (gone int, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ws uuid NOT NULL, n numeric, twice numeric GENERATED ALWAYS AS (n * 2) STORED, serial int GENERATED ALWAYS AS IDENTITY, j jsonb, a text[], "we.ird ""e." bytea);
	ALTER TABLE public.odd DROP COLUMN gone;
	CREATE TABLE public.num (k numeric, b text, ws uuid NOT NULL, PRIMARY KEY (k, b));
	CREATE TABLE public.names (x_place int, x_key int, op text, seq int, loc text, o1 int, nkey uuid, k1 int, l int, x_old int, x_cur int, x_any int UNIQUE, x_loc int, r int, e int, s int, t int, ws uuid NOT NULL, PRIMARY KEY (x_place, x_key, op, seq, loc, k1, l, e, r, s, t))`
	tables := []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "odd"}, Key: migrate.Key{Column: "ws"}}, {Name: migrate.TableName{Schema: "public", Name: "num"}, Key: migrate.Key{Column: "ws"}},
		{Name: migrate.TableName{Schema: "public", Name: "names"}, Key: migrate.Key{Column: "ws"}}}
	r := newRig(t, rigSpec{ddl: ddl, tables: tables, schema: "app"})
	r.source.Exec(t, `INSERT INTO public.odd (ws, n, j, a, "we.ird ""e.") SELECT md5(g::text)::uuid, g / 3.0, jsonb_build_object('g', g), ARRAY[g::text, NULL, 'a,"b'], decode('00ff', 'hex') FROM generate_series(1, 20) g;
		INSERT INTO public.num SELECT g, 'é' || g, md5(g::text)::uuid FROM generate_series(1, 5) g;
		INSERT INTO public.names (x_place, x_key, op, seq, loc, k1, l, e, r, s, t, ws) SELECT g, 1, 'o', 1, 'l', 1, 1, 1, 1, 1, 1, md5(g::text)::uuid FROM generate_series(1, 9) g`)
	r.level(t)
	r.want(t)
	r.source.Exec(t, "UPDATE public.num SET k = k * 1.00; UPDATE public.odd SET n = 1, serial = DEFAULT WHERE id < 5; UPDATE public.odd SET n = n * 1.0; UPDATE public.names SET x_place = -x_place, x_any = x_place, ws = gen_random_uuid()")
	r.level(t)
	r.want(t)
	r.own(t)
	for _, d := range r.dbs {
		d.Exec(t, `UPDATE app.odd SET n = n + 1, j = '[1]', a = NULL; UPDATE app.num SET k = k * 1.0000; UPDATE app.names SET x_any = NULL, x_key = 5 WHERE x_place % 2 = 0; DELETE FROM app.names WHERE x_place = -3; UPDATE app.odd SET serial = DEFAULT WHERE id % 2 = 0; INSERT INTO app.odd (id, ws, n) OVERRIDING SYSTEM VALUE SELECT id + 1000, ws, 5 FROM app.odd`)
	}
	r.back(t)
	r.want(t)
}

func TestUniqueValuesChangeHandsOnTheWayBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 2, schema: "app"})
	r.source.Exec(t, "CREATE UNIQUE INDEX ON public.block (body)")
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'u' || g FROM generate_series(1, 20) g")
	r.level(t)
	r.own(t)
	d := r.dbs[0]
	ids := d.Rows(t, "SELECT id FROM app.block ORDER BY id")
	d.Exec(t, fmt.Sprintf("UPDATE app.block SET body = 'u%[1]s' WHERE id = %[2]s; UPDATE app.block SET body = 'u%[2]s' WHERE id = %[1]s; UPDATE app.block SET body = 'u%[4]s' WHERE id = %[3]s; DELETE FROM app.block WHERE id = %[4]s",
		ids[0], ids[1], ids[2], ids[3]))
	r.back(t)
	r.want(t)
	// A value that another database's row has on the source.
	d.Exec(t, fmt.Sprintf("UPDATE app.block SET body = (SELECT 'u%s') WHERE id = %s; UPDATE app.block SET body = 'fine' WHERE id = %s", r.dbs[1].Value(t, "SELECT min(id) FROM app.block"), ids[0], ids[1]))
	r.back(t)
	if got := quarantine(t, r.source); len(got) != 1 || !strings.HasSuffix(got[0], fmt.Sprintf(`["%s"]|unique`, ids[0])) {
		t.Errorf("parked: %v", got)
	}
	if got := r.source.Value(t, "SELECT body FROM public.block WHERE id = $1", ids[1]); got != "fine" {
		t.Errorf("another row of the batch: %s", got)
	}
}

func TestReverseStopsForAStaleTermAndAnOwner(t *testing.T) {
	t.Parallel()
	r := moved(t, rigSpec{databases: 1, schema: "app"}, twenty)
	r.back(t)
	// Two tables: what the first tick that is refused makes for either is of use to the next.
	r.dbs[0].Exec(t, "UPDATE app.block SET body = 'y'; UPDATE app.comment SET body = 'y'")
	r.dbs[0].Exec(t, "UPDATE shardctl.control SET term = 9")
	if _, err := r.applier.Reverse(t.Context()); err == nil || !strings.Contains(err.Error(), store.ErrTerm.Error()) {
		t.Errorf("term raised on the database: %v", err)
	}
	r.dbs[0].Exec(t, "UPDATE shardctl.control SET term = 1")
	r.source.Exec(t, "UPDATE shardctl.ownership SET term = 9")
	if _, err := r.applier.Reverse(t.Context()); err == nil || !strings.Contains(err.Error(), store.ErrTerm.Error()) {
		t.Errorf("term raised on the source: %v", err)
	}
	r.source.Exec(t, "UPDATE shardctl.ownership SET term = 1, owner = 'source'")
	if _, err := r.applier.Reverse(t.Context()); err == nil {
		t.Error("the source owns the shards, and was written")
	}
	if got := r.source.Value(t, "SELECT count(*) FROM public.block WHERE body = 'y'"); got != "0" {
		t.Error("the source was written")
	}
	r.source.Exec(t, "UPDATE shardctl.ownership SET owner = 'db0'")
	r.back(t)
	r.want(t)
}

// TestNothingIsWrittenBackToATableWithoutAWayBack, nor to those that it leads to: the
// source's triggers and foreign key actions would run once more.
func TestNothingIsWrittenBackToATableWithoutAWayBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		none int
		want string
	}{"a child": {1, "back c"}, "a parent": {0, "x c"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables := blocks()
			tables[c.none].Rollback = "none"
			r := moved(t, rigSpec{ddl: blockDDL, tables: tables}, twenty)
			must(t, r.applier.ProveReverse(t.Context(), nil))
			r.write(t, 1, "UPDATE %.block SET body = 'back' WHERE id = 1; UPDATE %.comment SET body = 'back' WHERE id = 1")
			r.backLevel(t)
			must(t, r.applier.DrainReverse(t.Context(), []string{"db0", "db1"}))
			got := r.source.Value(t, "SELECT b.body || ' ' || c.body FROM public.block b JOIN public.comment c ON c.id = b.id WHERE b.id = 1")
			if got != c.want {
				t.Errorf("the source has %q, want %q", got, c.want)
			}
			_, db := r.at(t, 1)
			if log := r.dbs[db].Value(t, fmt.Sprintf(`SELECT coalesce(to_regclass('shardctl."m_log_%d_0"')::text, 'none')`, c.none+1)); log != "none" {
				t.Errorf("a log that nobody reads: %s", log)
			}
		})
	}
}
