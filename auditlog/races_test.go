package auditlog_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// TestRaces goes through interleavings on one migration, each on empty tables.
func TestRaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	for name, test := range map[string]func(*testing.T, *rig){
		"a writer in another database of the cluster": writerInAnotherDatabase,
		"a prepared transaction":                      preparedTransaction,
		"a truncate under a tick":                     truncateUnderATick,
		"files swapped under a tick":                  filesSwappedUnderATick,
	} {
		t.Run(name, func(t *testing.T) {
			r.clear(t)
			test(t, r)
		})
	}
}

func TestChaosAHotRow(t *testing.T) {
	t.Parallel()
	updates := 20_000
	if pgtest.LongForm() {
		updates = 100_000
	}
	hotRow(t, newRig(t, rigSpec{}), updates)
}

// writerInAnotherDatabase: its transaction is in every snapshot of the cluster, and
// holds back neither ticks nor rotation.
func writerInAnotherDatabase(t *testing.T, r *rig) {
	foreign := begin(t, pgtest.NewDatabase(t))
	exec(t, foreign, "SELECT pg_current_xact_id()")
	for i := range 3 {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block VALUES (%d, %[1]d, 'x')", i))
		if n := r.tick(t)[0].Entries; n != 1 {
			t.Errorf("tick %d moved past %d entries, one was written", i, n)
		}
	}
	r.want(t)
	conn, side := r.connect(t, r.sourceTarget()), auditlog.SourceSide(r.layout)
	var positions []string
	for _, d := range r.dbs {
		positions = append(positions, d.Value(t, "SELECT snapshot FROM shardctl.position WHERE direction = 'forward'"))
	}
	for range 2 { // switched, then emptied
		_, err := side.Rotate(t.Context(), conn, positions, 0)
		must(t, err)
	}
	if got := r.source.Value(t, `SELECT (SELECT count(*) FROM shardctl.m_log_1_0) + (SELECT count(*) FROM shardctl.m_log_1_1)`); got != "0" {
		t.Errorf("%s entries are left that every database has", got)
	}
	must(t, foreign.Rollback(t.Context()))
	if n := r.tick(t)[0].Entries; n != 0 {
		t.Errorf("%d entries came again when it ended", n)
	}
}

// preparedTransaction: it is nobody's session, may last, and its entries arrive once.
func preparedTransaction(t *testing.T, r *rig) {
	for gid, sql := range map[string]string{"kept": "INSERT INTO public.block VALUES (1, 1, 'kept'); SAVEPOINT a; INSERT INTO public.block VALUES (2, 2, 'kept'); SAVEPOINT b; INSERT INTO public.block VALUES (3, 3, 'gone'); ROLLBACK TO b",
		"dropped": "INSERT INTO public.block VALUES (4, 4, 'dropped')"} {
		tx := begin(t, r.source)
		exec(t, tx, sql+fmt.Sprintf("; PREPARE TRANSACTION '%s %s'", r.source.Name, gid))
	}
	r.source.Exec(t, "INSERT INTO public.block VALUES (5, 5, 'meanwhile')")
	r.level(t)
	r.applier.Close(t.Context())
	r.source.Exec(t, "INSERT INTO public.block VALUES (6, 6, 'meanwhile')")
	r.level(t)
	if got := r.onDatabases(t, "block"); got != "5,6" {
		t.Errorf("while they are prepared the databases have %s", got)
	}
	r.source.Exec(t, fmt.Sprintf("COMMIT PREPARED '%s kept'", r.source.Name))
	r.source.Exec(t, fmt.Sprintf("ROLLBACK PREPARED '%s dropped'", r.source.Name))
	if n := r.tick(t)[0].Entries; n != 2 {
		t.Errorf("%d entries, two were committed", n)
	}
	r.want(t)
}

// whileATickWaits begins a tick while SQL on the source is not committed that keeps it from
// its locks, and commits then.
func (r *rig) whileATickWaits(t *testing.T, sql string) {
	t.Helper()
	r.whileATickWaitsOn(t, r.source, sql)
}

// whileATickWaitsOn does so with SQL on a database.
func (r *rig) whileATickWaitsOn(t *testing.T, d *pgtest.Database, sql string) {
	t.Helper()
	tx := begin(t, d)
	exec(t, tx, sql)
	done := make(chan error, 1)
	go func() {
		_, err := r.applier.Forward(t.Context())
		done <- err
	}()
	soon(t, func() bool {
		return d.Value(t, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database() AND a.application_name LIKE 'shardctl%'") != "0"
	})
	must(t, tx.Commit(t.Context()))
	must(t, <-done)
}

func truncateUnderATick(t *testing.T, r *rig) {
	r.source.Exec(t, twenty)
	r.level(t)
	r.source.Exec(t, "UPDATE public.block SET body = 'y'; UPDATE public.comment SET body = 'y'")
	r.whileATickWaits(t, "TRUNCATE public.comment; INSERT INTO public.comment VALUES (7, 7, 'after')")
	r.level(t)
	r.want(t)
	r.source.Exec(t, "UPDATE public.block SET body = 'z'")
	r.whileATickWaits(t, "TRUNCATE public.block") // its children have no key any more
	r.source.Exec(t, "DELETE FROM public.comment")
	r.level(t)
	r.want(t)
}

// filesSwappedUnderATick: as pg_repack does, which fires no trigger and changes
// nothing that an older snapshot would see.
func filesSwappedUnderATick(t *testing.T, r *rig) {
	r.source.Exec(t, twenty)
	r.level(t)
	r.source.Exec(t, "UPDATE public.block SET body = 'y'")
	r.whileATickWaits(t, `LOCK TABLE public.block IN ACCESS EXCLUSIVE MODE; CREATE TABLE public.repacked (LIKE public.block INCLUDING ALL); INSERT INTO public.repacked SELECT * FROM public.block;
	UPDATE pg_class c SET relfilenode = o.relfilenode FROM pg_class o WHERE (c.relname, o.relname) IN (('block', 'repacked'), ('repacked', 'block'), ('block_pkey', 'repacked_pkey'), ('repacked_pkey', 'block_pkey'))
		AND c.relnamespace = 'public'::regnamespace AND o.relnamespace = 'public'::regnamespace`)
	r.level(t)
	if n := r.count(t, "block"); n != 20 {
		t.Errorf("a table whose file was swapped was taken for an empty one: %d rows are left of 20", n)
	}
	r.source.Exec(t, "DROP TABLE public.repacked; UPDATE public.block SET body = 'z'")
	r.level(t)
	r.want(t)
}

// hotRow: one row, so many transactions. Each tick writes it once.
func hotRow(t *testing.T, r *rig, updates int) {
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, '0'); INSERT INTO public.comment VALUES (1, 1, 'c')")
	writer, done := r.source.Connect(t), make(chan error, 1)
	go func() {
		_, err := writer.Exec(t.Context(), fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE public.block SET body = i, workspace_id = i %% 9 WHERE id = 1; COMMIT; END LOOP; END $$", updates))
		done <- err
	}()
	var rows, ticks int64
	for ended := false; !ended; ticks++ {
		select {
		case err := <-done:
			must(t, err)
			ended = true
		default:
		}
		for _, k := range r.tick(t) {
			rows += k.Rows
		}
	}
	r.level(t)
	r.want(t)
	if rows > 4*ticks {
		t.Errorf("%d rows were written in %d ticks, of %d updates of one row", rows, ticks, updates)
	}
}

// TestXidsAreReusedAfterACrash: transactions that left no trace in the log of the
// server raise every snapshot's xmax; after a crash their xids are handed out again.
func TestXidsAreReusedAfterACrash(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: []string{"wal_writer_delay=10s"}})
	r := newRig(t, rigSpec{source: server})
	const traceless = "DO $$ BEGIN FOR i IN 1..300 LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$"
	for i := range 3 {
		r.source.Exec(t, traceless)
		r.source.Exec(t, "SET synchronous_commit = off; "+fmt.Sprintf("INSERT INTO public.block VALUES (%d, %[1]d, 'seen before it is durable')", i))
		r.level(t)
		r.source.Exec(t, traceless)
		r.tick(t) // finds nothing, and must not go by the xids that will come again
		before := r.source.Value(t, "SELECT pg_snapshot_xmax(pg_current_snapshot())")
		server.Stop(t, "immediate")
		server.Start(t)
		r.applier.Close(t.Context())
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block VALUES (10%d, %[1]d, 'by an xid that was there before')", i))
		if got := r.source.Value(t, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint < $1::text::bigint", before); got != "t" {
			t.Error("no xid was handed out again")
		}
		r.level(t)
		r.want(t)
	}
	if n := r.count(t, "block"); n != 6 {
		t.Errorf("%d rows are on the databases, six were written", n)
	}
}
