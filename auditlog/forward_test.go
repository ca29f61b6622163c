package auditlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestForward goes through interleavings on one migration, each on empty tables.
func TestForward(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	for name, test := range map[string]func(*testing.T, *rig){
		"late commit of an early id": lateCommitOfAnEarlyID, "long writer": longWriter, "empty tick": emptyTick, "deletes and moves": deletesAndMoves,
		"stale term": staleTerm, "held database": heldDatabase, "gaps": gapsStop, "databases meet again": databasesMeetAgain,
	} {
		t.Run(name, func(t *testing.T) {
			r.clear(t)
			test(t, r)
		})
	}
	t.Run("rewrite before the read", func(t *testing.T) { // the last: its DDL is a stop
		r.clear(t)
		rewriteBeforeTheRead(t, r)
	})
}

func TestTicksBringEveryKindOfWrite(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"shard_%d", "app"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSpec{schema: schema})
			r.source.Exec(t, `INSERT INTO public.block SELECT g, g % 17, 'b' || g FROM generate_series(1, 200) g;
				INSERT INTO public.comment SELECT g, g, E'c\t\n\\' || g FROM generate_series(1, 200) g; INSERT INTO public.plan VALUES (1, 'free'), (2, 'paid')`)
			r.level(t)
			r.want(t)
			r.source.Exec(t, `UPDATE public.block SET body = body || '!' WHERE id % 3 = 0;
				UPDATE public.block SET workspace_id = workspace_id + 1 WHERE id % 7 = 1;
				UPDATE public.comment SET block_id = block_id + 10 WHERE id <= 190 AND id % 11 = 1`)
			r.source.Exec(t, `DELETE FROM public.comment WHERE block_id % 10 = 0; DELETE FROM public.block WHERE id % 10 = 0;
				UPDATE public.plan SET name = 'x' WHERE id = 1; DELETE FROM public.plan WHERE id = 2`)
			r.level(t)
			r.want(t)
		})
	}
}

// lateCommitOfAnEarlyID: sequence order is not commit order.
func lateCommitOfAnEarlyID(t *testing.T, r *rig) {
	early := begin(t, r.source)
	exec(t, early, "INSERT INTO public.block VALUES (1, 1, 'early')")
	r.source.Exec(t, "INSERT INTO public.block VALUES (2, 2, 'late')")
	r.level(t)
	if got := r.onDatabases(t, "block"); got != "2" {
		t.Fatalf("after the first tick the databases have %s", got)
	}
	must(t, early.Commit(t.Context()))
	r.level(t)
	r.want(t)
}

// longWriter: positions are snapshots, not one number.
func longWriter(t *testing.T, r *rig) {
	long := begin(t, r.source)
	exec(t, long, "INSERT INTO public.block VALUES (1, 1, 'long')")
	exec(t, long, "SAVEPOINT a; INSERT INTO public.block VALUES (100, 1, 'gone'); ROLLBACK TO a; SAVEPOINT b; INSERT INTO public.block VALUES (101, 1, 'kept'); RELEASE b")
	for i := 2; i < 6; i++ {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block VALUES (%d, %d, 'short')", i, i))
		ticks := r.tick(t)
		if ticks[0].Entries != 1 {
			t.Fatalf("tick %d moved past %d entries, one was written", i, ticks[0].Entries)
		}
	}
	if got := r.onDatabases(t, "block"); got != "2,3,4,5" {
		t.Fatalf("while a writer is open the databases have %s", got)
	}
	must(t, long.Commit(t.Context()))
	if ticks := r.tick(t); ticks[0].Entries != 2 {
		t.Fatalf("%d entries of the long writer, two were committed", ticks[0].Entries)
	}
	r.want(t)
}

func emptyTick(t *testing.T, r *rig) {
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, 'x')")
	r.level(t)
	before, markers := r.position(t, 0), r.source.Value(t, "SELECT count(*) FROM shardctl.marker")
	r.tick(t)
	if r.position(t, 0) != before || r.source.Value(t, "SELECT count(*) FROM shardctl.marker") != markers {
		t.Error("an empty tick stored something")
	}
}

func deletesAndMoves(t *testing.T, r *rig) {
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 20) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g")
	r.level(t)
	// A → B → C within one batch, and over several.
	r.source.Exec(t, "UPDATE public.block SET workspace_id = 21 WHERE id = 1")
	r.source.Exec(t, "UPDATE public.block SET workspace_id = 35 WHERE id = 1")
	r.source.Exec(t, "DELETE FROM public.block WHERE id = 2; INSERT INTO public.block VALUES (2, 77, 'again')")
	r.source.Exec(t, "UPDATE public.block SET id = 1000 WHERE id = 3; UPDATE public.comment SET block_id = 1000 WHERE id = 3; UPDATE public.comment SET id = id + 500 WHERE id = 4")
	r.level(t)
	r.want(t)
	for w := range 6 {
		r.source.Exec(t, fmt.Sprintf("UPDATE public.block SET workspace_id = %d WHERE id = 5", 100+w))
		r.level(t)
		r.want(t)
	}
}

func TestChildrenFollowTheirParents(t *testing.T) {
	t.Parallel()
	tables := blocks()
	tables[1].Orphans = migrate.Stray{Policy: "skip"}
	tables = append(tables, migrate.Table{Name: migrate.TableName{Schema: "public", Name: "reply"},
		Key:      migrate.Key{From: migrate.TableName{Schema: "public", Name: "comment"}, Via: "comment_id", StoreAs: "workspace_id"},
		NullKeys: migrate.Stray{Policy: "skip"}, Orphans: migrate.Stray{Policy: "skip"}})
	r := newRig(t, rigSpec{tables: tables, ddl: blockDDL + `; CREATE TABLE public.reply (id bigint PRIMARY KEY, comment_id bigint, body text); CREATE INDEX ON public.reply (comment_id)`})
	step := func(sql string) {
		t.Helper()
		r.source.Exec(t, sql)
		r.level(t)
		r.want(t)
		if t.Failed() {
			t.Fatalf("after %s", sql)
		}
	}
	step("INSERT INTO public.comment SELECT g, g, 'before its parent' FROM generate_series(1, 20) g; INSERT INTO public.reply SELECT g, g, 'r' FROM generate_series(1, 20) g")
	step("INSERT INTO public.block SELECT g, g, 'b' FROM generate_series(1, 20) g")
	step("UPDATE public.block SET workspace_id = workspace_id + 13 WHERE id < 10")
	step("UPDATE public.block SET workspace_id = 3 WHERE id = 4; UPDATE public.block SET workspace_id = 9 WHERE id = 4; UPDATE public.reply SET body = 'q' WHERE id = 4")
	step("DELETE FROM public.block WHERE id IN (7, 8)")
	step("UPDATE public.comment SET block_id = 11 WHERE id = 7; DELETE FROM public.comment WHERE id = 12; UPDATE public.comment SET block_id = NULL WHERE id = 13")
	step("INSERT INTO public.block VALUES (8, 40, 'back'); UPDATE public.block SET id = 500 WHERE id = 14")
	step("TRUNCATE public.block")
	for _, row := range r.dbs[0].Rows(t, "SELECT count(*) FROM shard_0.reply") {
		if row != "0" {
			t.Errorf("replies without a key are still there: %s", row)
		}
	}
	if got := r.dbs[0].Value(t, "SELECT count(*) FROM shardctl.quarantine"); got != "0" {
		t.Errorf("%s keys in quarantine, the spec says skip", got)
	}
}

// Rows without a key have a shard here, and leave it when a parent comes, however far up.
func TestRowsLeaveTheShardOfRowsWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"shard_%d", "app"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			tables, last := blocks(), migrate.Stray{Policy: "shard", Shard: 3}
			tables[1].NullKeys, tables[1].Orphans = last, last
			tables = append(tables, migrate.Table{Name: migrate.TableName{Schema: "public", Name: "reply"}, NullKeys: last, Orphans: last,
				Key: migrate.Key{From: migrate.TableName{Schema: "public", Name: "comment"}, Via: "comment_id"}})
			r := newRig(t, rigSpec{tables: tables, schema: schema, ddl: blockDDL + `; CREATE TABLE public.reply (id bigint PRIMARY KEY, comment_id bigint, body text); CREATE INDEX ON public.reply (comment_id)`})
			step := func(sql string) {
				t.Helper()
				r.source.Exec(t, sql)
				r.level(t)
				r.want(t)
				if t.Failed() {
					t.Fatalf("after %s", sql)
				}
			}
			step("INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g; INSERT INTO public.reply SELECT g, g, 'r' FROM generate_series(1, 30) g")
			step("INSERT INTO public.block SELECT g, g, 'b' FROM generate_series(1, 30) g")
			step("DELETE FROM public.comment")
			step("INSERT INTO public.comment SELECT g, g + 3, 'c' FROM generate_series(1, 10) g")
			step("UPDATE public.comment SET id = id + 15")
			step("INSERT INTO public.comment VALUES (1, 1, 'c'); UPDATE public.reply SET comment_id = 2 WHERE id = 1")
		})
	}
}

func TestStoredKeysAreFilledAndFollow(t *testing.T) {
	t.Parallel()
	tables := blocks()
	tables[1].Key.StoreAs = "ws"
	r := newRig(t, rigSpec{tables: tables, ddl: blockDDL, schema: "app"})
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'b' FROM generate_series(1, 20) g; INSERT INTO public.comment SELECT g, g, 'c' FROM generate_series(1, 20) g")
	r.source.Exec(t, "UPDATE public.block SET workspace_id = 99 WHERE id = 5")
	r.level(t)
	r.source.Exec(t, "UPDATE public.block SET workspace_id = workspace_id + 1")
	r.level(t)
	r.want(t)
	for _, d := range r.dbs {
		if bad := d.Rows(t, "SELECT c.id, c.ws, b.workspace_id FROM app.comment c LEFT JOIN app.block b ON b.id = c.block_id WHERE c.ws IS DISTINCT FROM b.workspace_id"); len(bad) > 0 {
			t.Errorf("stored keys differ: %v", bad)
		}
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	ddl := `CREATE TABLE public.ev (id bigint, day date, ws int NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
	CREATE TABLE public.ev_1 PARTITION OF public.ev FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
	CREATE TABLE public.ev_2 PARTITION OF public.ev FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY HASH (id);
	CREATE TABLE public.ev_2_0 PARTITION OF public.ev_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE public.ev_2_1 PARTITION OF public.ev_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1)`
	r := newRig(t, rigSpec{ddl: ddl, tables: []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "ev"}, Key: migrate.Key{Column: "ws"}}}})
	fill := func() {
		r.source.Exec(t, `INSERT INTO public.ev SELECT g, date '2026-01-01' + (g % 59), g % 9 FROM generate_series(1, 200) g`)
	}
	fill()
	r.level(t)
	r.want(t)
	r.source.Exec(t, "TRUNCATE public.ev_2_1; INSERT INTO public.ev SELECT g, date '2026-02-03', g % 9 FROM generate_series(1000, 1020) g; UPDATE public.ev SET ws = ws + 1 WHERE id % 10 = 3")
	r.level(t)
	r.want(t)
	r.source.Exec(t, "TRUNCATE public.ev_1")
	r.level(t)
	r.want(t)
	r.source.Exec(t, "TRUNCATE public.ev")
	fill()
	r.level(t)
	r.want(t)
	if got := r.dbs[0].Value(t, "SELECT count(*) > 0 FROM shardctl.table_tombstone WHERE table_no = 1"); got != "t" {
		t.Error("no table-wide tombstone was written")
	}
}

// TestNoCutLeavesEntriesBehindATruncate: an entry with a low xid made after a
// truncate with a higher one must not be applied, and covered, before it.
func TestNoCutLeavesEntriesBehindATruncate(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{batch: 2})
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'old' FROM generate_series(1, 3) g")
	r.level(t)
	low := begin(t, r.source)
	exec(t, low, "SELECT pg_current_xact_id()")
	for i := range 4 {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.plan VALUES (%d, 'p')", i))
	}
	r.source.Exec(t, "TRUNCATE public.block")
	exec(t, low, "INSERT INTO public.block VALUES (50, 1, 'after the truncate, by a lower xid')")
	must(t, low.Commit(t.Context()))
	for i := 4; i < 9; i++ {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.plan VALUES (%d, 'p')", i))
	}
	r.level(t)
	r.want(t)
}

func TestCutBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{batch: 7})
	for i := range 40 {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block VALUES (%d, %d, 'x'); UPDATE public.block SET workspace_id = workspace_id + 5 WHERE id %% 9 = %d; INSERT INTO public.comment VALUES (%[1]d, %[1]d, 'c')", i, i%11, i%9))
	}
	// Two that are open at a position and end before the next: a cut between them
	// must not pass the second.
	long, longer := begin(t, r.source), begin(t, r.source)
	exec(t, long, "INSERT INTO public.block SELECT g, g, 'one large transaction' FROM generate_series(100, 140) g")
	exec(t, longer, "INSERT INTO public.block SELECT g, g, 'another' FROM generate_series(200, 240) g")
	r.source.Exec(t, "UPDATE public.block SET body = 'y'")
	first := r.tick(t)[0]
	if !first.Cut || first.Backlog == 0 {
		t.Errorf("the first tick of a backlog: %+v", first)
	}
	r.level(t)
	must(t, long.Commit(t.Context()))
	must(t, longer.Commit(t.Context()))
	r.level(t)
	r.want(t)
}

// rewriteBeforeTheRead: a table that is rewritten after the
// snapshot of an older transaction reads as empty in it.
func rewriteBeforeTheRead(t *testing.T, r *rig) {
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 50) g")
	r.level(t)
	r.source.Exec(t, "UPDATE public.block SET body = 'y'")
	alter := begin(t, r.source)
	exec(t, alter, "ALTER TABLE public.block ALTER COLUMN body TYPE varchar(20)")
	done := make(chan error, 1)
	go func() {
		_, err := r.applier.Forward(t.Context())
		done <- err
	}()
	soon(t, func() bool {
		return r.source.Value(t, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name LIKE 'shardctl%'") != "0"
	})
	must(t, alter.Commit(t.Context()))
	err := <-done
	if err != nil && !strings.Contains(err.Error(), "DDL under way") {
		t.Fatal(err)
	}
	if total := r.count(t, "block"); total != 50 {
		t.Errorf("a rewritten table was taken for an empty one: %d rows are left of 50", total)
	}
}

func staleTerm(t *testing.T, r *rig) {
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, 'x')")
	r.tick(t)
	r.source.Exec(t, "INSERT INTO public.block VALUES (2, 2, 'x')")
	term := func(n int) {
		for _, d := range r.dbs {
			d.Exec(t, "UPDATE shardctl.control SET term = $1", n)
		}
	}
	term(9)
	defer term(1)
	_, err := r.applier.Forward(t.Context())
	if err == nil || !strings.Contains(err.Error(), store.ErrTerm.Error()) {
		t.Fatalf("a stale applier: %v", err)
	}
	if got := r.onDatabases(t, "block"); got != "1" {
		t.Errorf("a stale applier wrote: %s", got)
	}
}

func heldDatabase(t *testing.T, r *rig) {
	r.dbs[0].Exec(t, "UPDATE shardctl.control SET held = true")
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 20) g")
	for _, tick := range r.tick(t) {
		if tick.Held != (tick.Database == "db0") {
			t.Errorf("%s: held is %v", tick.Database, tick.Held)
		}
	}
	if got := r.dbs[0].Value(t, "SELECT count(*) FROM shard_0.block"); got != "0" {
		t.Error("a held database was written")
	}
	r.dbs[0].Exec(t, "UPDATE shardctl.control SET held = false")
	r.level(t)
	r.want(t)
}

func gapsStop(t *testing.T, r *rig) {
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, 'x')")
	r.tick(t)
	for name, sql := range map[string]struct{ damage, undo string }{
		"marker gone":     {"CREATE TABLE public.kept AS TABLE shardctl.marker; DELETE FROM shardctl.marker", "INSERT INTO shardctl.marker TABLE public.kept; DROP TABLE public.kept"},
		"below low water": {"INSERT INTO shardctl.low_water VALUES ('m', 1, 0, '1:4000000000:')", "DELETE FROM shardctl.low_water"},
		"capture ended":   {"INSERT INTO shardctl.gap VALUES ('m', 'db0', 'forward', 'full'), ('m', 'db1', 'forward', 'full')", "DELETE FROM shardctl.gap"},
	} {
		r.source.Exec(t, sql.damage)
		if _, err := r.applier.Forward(t.Context()); err == nil || migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), "db1") {
			t.Errorf("%s: an idle tick: %v", name, err)
		}
		r.source.Exec(t, "INSERT INTO public.block VALUES (2, 1, 'x')")
		if _, err := r.applier.Forward(t.Context()); err == nil || migrate.ExitCode(err) != migrate.ExitRefused {
			t.Errorf("%s: a busy tick: %v", name, err)
		}
		if got := r.onDatabases(t, "block"); got != "1" {
			t.Errorf("%s: a gap was bridged: %s", name, got)
		}
		r.source.Exec(t, "DELETE FROM public.block WHERE id = 2;"+sql.undo)
	}
	r.dbs[0].Exec(t, "UPDATE shardctl.position SET system_identifier = system_identifier || '7'")
	r.applier.Close(t.Context())
	if _, err := r.applier.Forward(t.Context()); err == nil || migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), "db0") {
		t.Errorf("another server: %v", err)
	}
	r.dbs[0].Exec(t, "UPDATE shardctl.position SET system_identifier = left(system_identifier, -1)")
}

// databasesMeetAgain: two that stand at different positions are brought to one
// by the same tick.
func databasesMeetAgain(t *testing.T, r *rig) {
	for i := range 5 {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(%d, %d) g", i*10, i*10+9))
		if _, err := r.applier.Forward(t.Context(), "db0"); err != nil {
			t.Fatal(err)
		}
	}
	if r.position(t, 0) == r.position(t, 1) {
		t.Fatal("the databases are level already")
	}
	r.tick(t)
	r.source.Exec(t, "UPDATE public.block SET workspace_id = workspace_id + 1")
	r.tick(t)
	if a, b := r.position(t, 0), r.position(t, 1); a != b {
		t.Errorf("not level: %s and %s", a, b)
	}
	r.want(t)
}

// onDatabases lists the ids of a table over all places, as "1,2,3".
func (r *rig) onDatabases(t testing.TB, table string) string {
	t.Helper()
	return strings.Join(r.ids(t, table), ",")
}

func (r *rig) count(t testing.TB, table string) int { return len(r.ids(t, table)) }

func (r *rig) ids(t testing.TB, table string) []string {
	t.Helper()
	var out []string
	for i, d := range r.dbs {
		for _, loc := range r.spec.LocationsOf(r.name(i)) {
			out = append(out, d.Rows(t, fmt.Sprintf("SELECT id FROM %q.%q", loc.Schema, table))...)
		}
	}
	sortNumbers(out)
	return out
}

func begin(t testing.TB, d *pgtest.Database) pgx.Tx {
	t.Helper()
	tx, err := d.Connect(t).Begin(t.Context())
	must(t, err)
	return tx
}

func exec(t testing.TB, tx pgx.Tx, sql string) {
	t.Helper()
	_, err := tx.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	must(t, err)
}

var _ auditlog.Tick
