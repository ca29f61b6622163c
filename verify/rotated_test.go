package verify

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// rotate empties a table's log as a rotation does, in its transaction, up to a position.
func (w *world) rotate(tx pgx.Tx, table *layout.Table, position string) {
	w.t.Helper()
	ctx := context.Background()
	b := builder{layout: w.layout}
	for segment := range 2 {
		_, err := tx.Exec(ctx, `INSERT INTO shardctl.low_water (migration, table_no, segment, snapshot) VALUES ('m', $1, $2, $3::text::pg_snapshot)`, table.No, segment, position)
		must(w.t, err)
		_, err = tx.Exec(ctx, "TRUNCATE "+b.log(table, segment))
		must(w.t, err)
	}
}

// position is how far the first database was brought.
func (w *world) position() string {
	return w.databases[0].Value(w.t, "SELECT snapshot FROM shardctl.position WHERE direction = 'forward'")
}

// hold locks a table against everybody.
func (w *world) hold(db *pgtest.Database, table string) pgx.Tx {
	w.t.Helper()
	tx, err := db.Connect(w.t).Begin(context.Background())
	must(w.t, err)
	_, err = tx.Exec(context.Background(), "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	must(w.t, err)
	return tx
}

// heldUp returns when somebody waits for a lock in a database.
func (w *world) heldUp(db *pgtest.Database) {
	w.t.Helper()
	pgtest.Eventually(w.t, 20*time.Second, func() bool {
		return db.Value(w.t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") != "0"
	})
}

// The first page of the log is being compared when the rest is taken away: a row that
// only the second page named was not looked at.
func TestALogThatIsRotatedUnderARoundBreaksTheChain(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, block := t.Context(), w.layout.Tables[0]
	w.full()
	w.source.Exec(t, "INSERT INTO block (id, ws) SELECT gen_random_uuid(), 1 FROM generate_series(1, $1::int)", entryPage)
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
	w.catchUp()
	s := w.find(block, id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET n = 8 WHERE "+id(1))
	held := w.hold(s.db, s.table)
	done := make(chan error, 1)
	var round *Round
	go func() {
		var err error
		round, err = w.verifier.DeltaCheck(ctx, "db0", "db1")
		done <- err
	}()
	w.heldUp(s.db)
	rotation, err := w.conn(w.source).Begin(ctx)
	must(t, err)
	w.rotate(rotation, block, w.position())
	must(t, rotation.Commit(ctx))
	must(t, held.Commit(ctx))
	must(t, <-done)
	if len(round.Broken) != 2 || round.Broken[0].Reason != wasRotated {
		t.Errorf("%+v", round)
	}
	if err := w.verifier.Gate(ctx, []string{"db0", "db1"}, 0); code(err) != "verify.stale" {
		t.Errorf("gate: %v", err)
	}
}

// The log is emptied behind the look that found it whole: it seems that nothing was written.
func TestALogThatIsRotatedBeforeItIsReadIsMissed(t *testing.T) {
	t.Parallel()
	for name, compare := range map[string]func(*Verifier, context.Context, []string) error{"a round": (*Verifier).Delta, "a switch": (*Verifier).Exact} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := blockWorld(t)
			ctx, block := t.Context(), w.layout.Tables[0]
			w.full()
			w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
			w.catchUp()
			s := w.find(block, id(1))
			w.damage(s.db, "UPDATE "+s.table+" SET n = 8 WHERE "+id(1))
			rotation := w.hold(w.source, builder{layout: w.layout}.log(block, 0))
			done := make(chan error, 1)
			go func() { done <- compare(w.verifier, ctx, []string{"db0", "db1"}) }()
			w.heldUp(w.source)
			w.rotate(rotation, block, w.position())
			must(t, rotation.Commit(ctx))
			if err := <-done; code(err) != "verify.stale" {
				t.Errorf("compared: %v", err)
			}
		})
	}
}

// What the log has lost beyond the position may have been the row's entry.
func TestWhatRotationTookMayExplainADifference(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := t.Context()
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
	rotation, err := w.conn(w.source).Begin(ctx)
	must(t, err)
	w.rotate(rotation, w.layout.Tables[0], w.source.Value(t, "SELECT pg_current_snapshot()"))
	must(t, rotation.Commit(ctx))
	if r := w.full(); len(r.Differences) > 0 || r.Unsettled != 1 || r.State == Clean {
		t.Errorf("%+v", r)
	}
}

// A chain that was still for long keeps its log from the moment on that a round works on it,
// and as long as there is nothing to compare.
func TestARoundThatIsUnderWayKeepsItsLog(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := t.Context()
	retained := func(want int) {
		t.Helper()
		if kept, err := Retain(ctx, w.conn(w.source), "m"); err != nil || len(kept) != want {
			t.Errorf("retained %v, want %d: %v", kept, want, err)
		}
	}
	w.full()
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
	w.catchUp()
	const age = "UPDATE shardctl.verify_round SET at = at - interval '20 min'"
	w.source.Exec(t, age)
	retained(0)
	s := w.find(w.layout.Tables[0], id(1))
	held := w.hold(s.db, s.table)
	done := make(chan error, 1)
	go func() { done <- w.verifier.Delta(ctx, []string{"db0", "db1"}) }()
	w.heldUp(s.db)
	retained(2)
	must(t, held.Commit(ctx))
	must(t, <-done)
	w.source.Exec(t, age)
	must(t, w.verifier.Delta(ctx, []string{"db0", "db1"}))
	retained(2)
}
