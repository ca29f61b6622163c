package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func target(db *pgtest.Database) postgres.Target {
	return postgres.Target{Name: "source", DSN: migrate.Secret(db.DSN())}
}

func connect(t *testing.T, db *pgtest.Database) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), target(db), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

// state makes a database with the state of both sides and one migration.
func state(t *testing.T) (*pgtest.Database, *pgx.Conn) {
	t.Helper()
	db := pgtest.NewDatabase(t)
	conn := connect(t, db)
	for range 2 { // idempotent
		must(t, store.CreateSource(t.Context(), conn))
		must(t, store.CreateDatabase(t.Context(), conn))
	}
	must(t, store.InsertMigration(t.Context(), conn, store.Migration{Name: "m", Phase: migrate.New, SpecDigest: "d", Spec: []byte(`{}`), SystemIdentifier: "1"}))
	must(t, store.SaveOwnership(t.Context(), conn, "m", store.Ownership{Database: "db0", Shards: []int{0, 1}, Owner: store.OwnerSource, Epoch: 1}))
	must(t, store.SaveControl(t.Context(), conn, "m", store.Control{Database: "db0", Owner: store.OwnerSource, Epoch: 1, Shards: []int{0, 1}}))
	return db, conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryTableHasAPrimaryKey(t *testing.T) {
	t.Parallel()
	db, _ := state(t)
	const sql = `SELECT relname FROM pg_class c WHERE relnamespace = 'shardctl'::regnamespace AND relkind = 'r'
	AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p')`
	if got := db.Rows(t, sql); len(got) != 0 {
		t.Errorf("without a primary key: %v", got)
	}
}

func TestPhaseMovesOnlyAsAllowed(t *testing.T) {
	t.Parallel()
	_, conn := state(t)
	if err := store.SetPhase(t.Context(), conn, "m", migrate.CutOver); !errors.Is(err, store.ErrPhase) {
		t.Fatalf("new to cut_over: %v", err)
	}
	must(t, store.SetPhase(t.Context(), conn, "m", migrate.Prepared))
	must(t, store.SetPhase(t.Context(), conn, "m", migrate.Prepared))
	m, err := store.LoadMigration(t.Context(), conn, "m")
	must(t, err)
	if m.Phase != migrate.Prepared {
		t.Errorf("phase %s", m.Phase)
	}
	if _, err := store.LoadMigration(t.Context(), conn, "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown migration: %v", err)
	}
}

func TestPositionAndMarker(t *testing.T) {
	t.Parallel()
	_, conn := state(t)
	ctx := t.Context()
	id, err := postgres.ReadIdentity(ctx, conn)
	must(t, err)
	must(t, store.SaveFirstPosition(ctx, conn, "m", "db0", store.Forward, id))
	p, err := store.LoadPosition(ctx, conn, "m", "db0", store.Forward)
	must(t, err)
	if p.Snapshot != store.FirstSnapshot || p.Marker != uuid.Nil || p.Tick != 0 {
		t.Errorf("first position %+v", p)
	}
	if there, err := store.MarkerExists(ctx, conn, p.Marker, p.Snapshot); err != nil || !there {
		t.Errorf("the first position needs no marker: %v %v", there, err)
	}
	m, err := store.WriteMarker(ctx, conn, "m", "10:20:12")
	must(t, err)
	for _, c := range []struct {
		snapshot string
		want     bool
	}{{"10:20:12", true}, {"10:21:12", false}} {
		if there, err := store.MarkerExists(ctx, conn, m.ID, c.snapshot); err != nil || there != c.want {
			t.Errorf("marker with %s: %v %v", c.snapshot, there, err)
		}
	}
	p.Marker, p.Snapshot, p.Tick, p.LSN = m.ID, m.Snapshot, m.Tick, m.LSN
	must(t, store.SavePosition(ctx, conn, "m", "db0", store.Forward, p))
	must(t, store.SaveFirstPosition(ctx, conn, "m", "db0", store.Forward, id)) // does not reset
	got, err := store.LoadPosition(ctx, conn, "m", "db0", store.Forward)
	must(t, err)
	if got.Marker != m.ID || got.Snapshot != m.Snapshot || got.Tick != m.Tick {
		t.Errorf("position %+v, want marker %+v", got, m)
	}
	tick, err := store.NewestTick(ctx, conn, "m")
	if err != nil || tick != m.Tick {
		t.Errorf("newest tick %d %v", tick, err)
	}
}

func TestPruneMarkersKeepsThoseInUse(t *testing.T) {
	t.Parallel()
	db, conn := state(t)
	ctx := t.Context()
	var ids []uuid.UUID
	for range 3 {
		m, err := store.WriteMarker(ctx, conn, "m", "1:1:")
		must(t, err)
		ids = append(ids, m.ID)
	}
	must(t, store.PruneMarkers(ctx, conn, "m", 0, ids[:1]))
	if n := db.Value(t, "SELECT string_agg(tick::text, ',' ORDER BY tick) FROM shardctl.marker"); n != "1,3" {
		t.Errorf("left: %s, want the one in use and the newest", n)
	}
}

func TestLeaseIsHeldByOneAndPassesOn(t *testing.T) {
	t.Parallel()
	db, _ := state(t)
	ctx := t.Context()
	first, err := store.Acquire(ctx, target(db), "m", store.Operator)
	must(t, err)
	defer first.Release(ctx)
	_, err = store.Acquire(ctx, target(db), "m", store.Operator)
	if migrate.ExitCode(err) != migrate.ExitLeaseHeld {
		t.Fatalf("second holder: %v", err)
	}
	other, err := store.Acquire(ctx, target(db), "m", store.Verifier)
	must(t, err)
	other.Release(ctx)
	first.Release(ctx)
	second, err := store.Acquire(ctx, target(db), "m", store.Operator)
	must(t, err)
	if second.Term <= first.Term {
		t.Errorf("term %d after %d", second.Term, first.Term)
	}
	second.Release(ctx)
}

// A command that follows at once finds the lease free: the server ends a session only
// a moment after it was closed.
func TestAReleasedLeaseIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	db, conn := state(t)
	for range 50 {
		l, err := store.Acquire(t.Context(), target(db), "m", store.Operator)
		must(t, err)
		l.Release(t.Context())
		var held int
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&held))
		if held > 0 {
			t.Fatal("the lease is still held after it was released")
		}
	}
}

func TestStaleLeaseIsTakenAndItsBackendEnded(t *testing.T) {
	t.Parallel()
	db, conn := state(t)
	ctx := t.Context()
	first, err := store.Acquire(ctx, target(db), "m", store.Applier)
	must(t, err)
	defer first.Release(ctx)
	if _, err := conn.Exec(ctx, "UPDATE shardctl.lease SET heartbeat_at = now() - interval '16 seconds'"); err != nil {
		t.Fatal(err)
	}
	second, err := store.Acquire(ctx, target(db), "m", store.Applier)
	must(t, err)
	defer second.Release(ctx)
	pgtest.Eventually(t, 10*time.Second, func() bool {
		select {
		case <-first.Lost():
			return true
		default:
			return false
		}
	})
	h, err := store.Holder(ctx, conn, "m", store.Applier)
	if err != nil || h.Term != second.Term {
		t.Errorf("holder %+v %v", h, err)
	}
}

func TestLowerTermIsRefused(t *testing.T) {
	t.Parallel()
	db, conn := state(t)
	ctx := t.Context()
	side := connect(t, db)
	must(t, store.RaiseTerms(ctx, conn, map[string]*pgx.Conn{"db0": side}, "m", 7))
	if err := store.RaiseTerms(ctx, conn, map[string]*pgx.Conn{"db0": side}, "m", 6); !errors.Is(err, store.ErrTerm) {
		t.Errorf("a lower term: %v", err)
	}
	if err := store.RaiseControlTerm(ctx, side, "m", 6); !errors.Is(err, store.ErrTerm) {
		t.Errorf("a lower term, where the source is not asked: %v", err)
	}
	c, err := store.LoadControl(ctx, conn, "m")
	if err != nil || c.Term != 7 {
		t.Errorf("control %+v %v", c, err)
	}
}

// A change of the control row waits for sharers that came before it and is not
// overtaken by those that come after.
func TestChangeIsNotStarvedBySharers(t *testing.T) {
	t.Parallel()
	db, conn := state(t)
	ctx := t.Context()
	holder, err := conn.Begin(ctx)
	must(t, err)
	_, err = store.ShareControl(ctx, holder, "m")
	must(t, err)

	changer, later := connect(t, db), connect(t, db)
	changed := make(chan error, 1)
	go func() {
		changed <- postgres.WithTx(ctx, changer, pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := store.ChangeControl(ctx, tx, "m")
			return err
		})
	}()
	pgtest.Eventually(t, 5*time.Second, func() bool {
		return db.Value(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "1"
	})
	err = postgres.WithTx(ctx, later, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '50ms'"); err != nil {
			return err
		}
		_, err := store.ShareControl(ctx, tx, "m")
		return err
	})
	if postgres.SQLState(err) != "55P03" {
		t.Errorf("a later sharer overtook the changer: %v", err)
	}
	must(t, holder.Commit(ctx))
	must(t, <-changed)
}

func TestRegistryListsNewestFirstAndForgetsRemoved(t *testing.T) {
	t.Parallel()
	_, conn := state(t)
	ctx := t.Context()
	object := func(name string) store.Object {
		return store.Object{Migration: "m", Place: store.PlaceSource, Kind: "table", Name: name, Undo: "DROP TABLE IF EXISTS " + name}
	}
	for range 2 {
		must(t, store.Register(ctx, conn, object("a"), object("b")))
	}
	got, err := store.Registered(ctx, conn, "m", store.PlaceSource)
	must(t, err)
	if len(got) != 2 || got[0].Name != "b" {
		t.Fatalf("registered %+v", got)
	}
	must(t, store.MarkRemoved(ctx, conn, got[0].ID))
	if got, _ = store.Registered(ctx, conn, "m", store.PlaceSource); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("after removal %+v", got)
	}
}

func TestJournalAndItsCopy(t *testing.T) {
	t.Parallel()
	_, conn := state(t)
	ctx := t.Context()
	j := store.NewJournal("m", "cutover")
	must(t, j.Record(ctx, conn, "lock", "started", nil))
	must(t, j.Record(ctx, conn, "lock", "ok", map[string]int{"ms": 3}))
	entries, err := store.ReadJournal(ctx, conn, "m", 0)
	must(t, err)
	if len(entries) != 2 || entries[1].Outcome != "ok" || entries[0].PID == 0 {
		t.Fatalf("journal %+v", entries)
	}
	batch := &pgx.Batch{}
	store.QueueEntry(batch, "m", entries[0])
	must(t, conn.SendBatch(ctx, batch).Close()) // a copy that is there stays
	if entries, _ = store.ReadJournal(ctx, conn, "m", 1); len(entries) != 1 || entries[0].Outcome != "ok" {
		t.Errorf("newest %+v", entries)
	}
}

// A row that is not waited for is durable once a later commit is, on whatever session.
func TestALazyRowIsDurableWithTheNextCommit(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: []string{"wal_writer_delay=10s"}})
	db := server.NewDatabase(t)
	conn, other := connect(t, db), connect(t, db)
	ctx := t.Context()
	must(t, store.CreateSource(ctx, conn))
	j := store.NewJournal("m", "cutover")
	must(t, j.RecordLazily(ctx, conn, "drain", "started", map[string]any{"databases": []string{"db0"}}))
	must(t, j.RecordLazily(ctx, conn, "drain", "ok", nil))
	var waits string
	must(t, conn.QueryRow(ctx, "SHOW synchronous_commit").Scan(&waits))
	if waits != "on" {
		t.Errorf("the session's commits are %q after it", waits)
	}
	// The WAL writer sleeps, but for a page that is full.
	lags := 0
	for range 10 {
		must(t, j.RecordLazily(ctx, conn, "delta", "ok", nil))
		var lag bool
		must(t, other.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()").Scan(&lag))
		if lag {
			lags++
		}
	}
	if lags < 5 {
		t.Errorf("%d of 10 lazy rows were not waited for", lags)
	}
	must(t, store.InsertMigration(ctx, other, store.Migration{Name: "m", Phase: migrate.New, SpecDigest: "d", Spec: []byte(`{}`), SystemIdentifier: "1"}))
	server.Stop(t, "immediate")
	server.Start(t)
	rows, err := store.ReadJournal(ctx, connect(t, db), "m", 0)
	must(t, err)
	if len(rows) != 12 || rows[0].Outcome != "started" || string(rows[0].Detail) != `{"databases": ["db0"]}` || rows[1].Outcome != "ok" || rows[1].Attempt != j.Attempt {
		t.Errorf("after the crash the journal is %+v", rows)
	}
}

func TestHandover(t *testing.T) {
	t.Parallel()
	_, conn := state(t)
	ctx := t.Context()
	asked, err := store.HandoverRequested(ctx, conn, "m")
	if err != nil || asked {
		t.Fatalf("asked before: %v %v", asked, err)
	}
	must(t, store.RequestHandover(ctx, conn, "m", "cutover"))
	if asked, _ = store.HandoverRequested(ctx, conn, "m"); !asked {
		t.Error("request not seen")
	}
	must(t, store.AnswerHandover(ctx, conn, "m"))
	done, err := store.HandoverAnswered(ctx, conn, "m")
	if err != nil || !done {
		t.Errorf("answer: %v %v", done, err)
	}
	must(t, store.ClearHandover(ctx, conn, "m"))
}

// TestNewestOwnershipWins: a database that was not told of the last switch is outvoted.
func TestNewestOwnershipWins(t *testing.T) {
	t.Parallel()
	old := store.Copy{Control: store.Control{Database: "db1", Owner: store.OwnerSource, Epoch: 1, Shards: []int{1}}}
	told := store.Copy{Control: store.Control{Database: "db0", Owner: "db0", Epoch: 2, Shards: []int{0}}, Owners: []store.Ownership{
		{Database: "db0", Owner: "db0", Epoch: 2, Shards: []int{0}}, {Database: "db1", Owner: "db1", Epoch: 2, Shards: []int{1}},
	}}
	for _, copies := range []map[string]store.Copy{{"db0": told, "db1": old}, {"db0": told}} {
		got := store.Newest(copies)
		if len(got) != 2 || got[0].Owner != "db0" || got[1].Owner != "db1" || got[1].Epoch != 2 {
			t.Errorf("newest of %d copies: %v", len(copies), got)
		}
	}
}
