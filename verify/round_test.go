package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// code is the stable code of a failure.
func code(err error) string {
	var f *migrate.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

func TestGateWantsAFreshCleanPassOfTheSameEpoch(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, both := t.Context(), []string{"db0", "db1"}
	if err := w.verifier.Gate(ctx, both, 0); code(err) != "verify.stale" && code(err) != "verify.none" {
		t.Errorf("before any pass: %v", err)
	}
	w.full()
	must(t, w.verifier.Gate(ctx, both, time.Hour))
	if err := w.verifier.Gate(ctx, both, time.Microsecond); code(err) != "verify.stale" || migrate.ExitCode(err) != migrate.ExitRefused {
		t.Errorf("too old: %v", err)
	}
	w.own(1, store.OwnerSource, 2)
	must(t, w.verifier.Gate(ctx, []string{"db0"}, 0))
	if err := w.verifier.Gate(ctx, both, 0); code(err) != "verify.stale" {
		t.Errorf("another epoch: %v", err)
	}
	if _, err := w.verifier.Sample(ctx, 5); err != nil {
		t.Fatal(err)
	}
	must(t, w.verifier.Gate(ctx, []string{"db0"}, 0)) // a sample takes nothing away
}

// A row that a tick applies wrongly after the pass is found by the round that
// follows, and closes the gate.
func TestARoundFindsWhatWasAppliedWrongly(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1)+"; UPDATE comment SET body = 'x' WHERE id = 1")
	w.catchUp()
	s := w.find(w.layout.Tables[0], id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET n = 8 WHERE "+id(1))
	err := w.verifier.Delta(t.Context(), []string{s.name})
	if code(err) != "verify.differences" {
		t.Errorf("delta: %v", err)
	}
	if err := w.verifier.Gate(t.Context(), []string{s.name}, 0); code(err) != "verify.differences" {
		t.Errorf("gate: %v", err)
	}
	w.catchUp()
	must(t, w.verifier.Delta(t.Context(), []string{s.name}))
	if err := w.verifier.Gate(t.Context(), []string{s.name}, 0); code(err) != "verify.differences" {
		t.Errorf("a mended row is no clean pass: %v", err)
	}
	w.full()
	must(t, w.verifier.Gate(t.Context(), []string{s.name}, 0))
}

func TestExactComparesAllThatIsLeft(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, both := t.Context(), []string{"db0", "db1"}
	if err := w.verifier.Exact(ctx, both); code(err) != "verify.stale" {
		t.Errorf("without rounds: %v", err)
	}
	w.full()
	w.source.Exec(t, "UPDATE block SET n = n + 1; UPDATE plan SET name = 'x'; DELETE FROM comment WHERE id > 990")
	w.catchUp()
	must(t, w.verifier.Exact(ctx, both))
	s := w.find(w.layout.Tables[0], id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET n = -1 WHERE "+id(1))
	if err := w.verifier.Exact(ctx, both); code(err) != "verify.differences" || !strings.Contains(err.Error(), "different") {
		t.Errorf("a row differs: %v", err)
	}
	if room, err := w.verifier.Room(ctx, both); !room || err != nil {
		t.Errorf("room for few keys: %v, %v", room, err)
	}
	w.verifier.limits.unsettled = 1000
	if room, err := w.verifier.Room(ctx, both); room || err != nil {
		t.Errorf("room for more keys than allowed: %v, %v", room, err)
	}
	if err := w.verifier.Exact(ctx, both); code(err) != "verify.too_much" {
		t.Errorf("more keys than allowed: %v", err)
	}
}

// Rotation past what was compared loses nothing but the proof.
func TestALogThatWasRotatedTooFarMakesThePassStale(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
	w.catchUp()
	kept, err := Retain(t.Context(), w.conn(w.source), "m")
	if err != nil || len(kept) != 2 {
		t.Errorf("retained %v, %v", kept, err)
	}
	position := w.databases[0].Value(t, "SELECT snapshot FROM shardctl.position WHERE direction = 'forward'")
	w.source.Exec(t, `INSERT INTO shardctl.low_water (migration, table_no, segment, snapshot) VALUES ('m', 1, 0, '`+position+`'); TRUNCATE shardctl."m_log_1_0"`)
	if err := w.verifier.Delta(t.Context(), []string{"db0"}); code(err) != "verify.stale" {
		t.Errorf("delta: %v", err)
	}
	if err := w.verifier.Gate(t.Context(), []string{"db0"}, 0); code(err) != "verify.stale" {
		t.Errorf("gate: %v", err)
	}
	w.full()
	must(t, w.verifier.Gate(t.Context(), []string{"db0", "db1"}, 0))
}

// A pass that was killed goes on behind the tables that it was through with.
func TestAnInterruptedPassGoesOn(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	w.verifier.cfg.Observe = func(e Event) {
		w.events = append(w.events, e)
		if e.Kind == Reading && e.Table == "public.comment" {
			stop()
		}
	}
	if _, err := w.verifier.Full(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	w.source.Exec(t, "UPDATE shardctl.verify_pass SET heartbeat_at = heartbeat_at - interval '1 min'")
	if s, err := w.verifier.State(t.Context(), 0); err != nil || s.State != Partial || s.RowsCompared != 2000 {
		t.Errorf("interrupted: %+v, %v", s, err)
	}
	w.events = nil
	w.verifier.cfg.Observe = func(e Event) { w.events = append(w.events, e) }
	r := w.full()
	if r.State != Clean || r.RowsCompared != 3010 {
		t.Errorf("%+v", r)
	}
	if slices.ContainsFunc(w.events, func(e Event) bool { return e.Table == "public.block" }) {
		t.Error("a table that was done was read again")
	}
	if n := w.source.Value(t, "SELECT count(*) FROM shardctl.verify_pass"); n != "1" {
		t.Errorf("%s passes are recorded", n)
	}
}

// A pass that goes on rests on the rounds since its beginning. If they broke
// meanwhile, another one begins.
func TestAnInterruptedPassWhoseRoundsBrokeBeginsAnew(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	w.verifier.cfg.Observe = func(e Event) {
		if e.Kind == Reading && e.Table == "public.comment" {
			stop()
		}
	}
	if _, err := w.verifier.Full(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	w.verifier.cfg.Observe = nil
	w.save(0, store.Forward, store.FirstSnapshot)
	w.catchUp(1)
	if r := w.full(); r.State != Clean || r.RowsCompared != 3010 {
		t.Errorf("%+v", r)
	}
	if n := w.source.Value(t, "SELECT count(*) FROM shardctl.verify_pass"); n != "2" {
		t.Errorf("%s passes are recorded", n)
	}
}

// What a database writes to a table without a way back exists there alone.
func TestTablesWithoutAWayBackAreNotComparedOnceTheyMoved(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.layout.Tables[0].Spec.Rollback = "none" // its children's keys are found through it
	if r := w.full(); r.State != Clean || r.RowsCompared != 3010 {
		t.Fatalf("before: %+v", r)
	}
	for i := range w.databases {
		w.own(i, fmt.Sprintf("db%d", i), 2)
	}
	s := w.find(w.layout.Tables[0], id(1))
	s.db.Exec(t, "UPDATE "+s.table+" SET n = n + 1")
	if r := w.full(); r.State != Clean || len(r.Differences) != 0 || r.RowsCompared >= 2000 || r.RowsCompared == 0 {
		t.Errorf("a full pass: %+v", r)
	}
	r, err := w.verifier.Sample(t.Context(), 20)
	if err != nil || len(r.Differences) != 0 {
		t.Errorf("a sample: %+v, %v", r, err)
	}
	if round, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1"); err != nil || len(round.Broken)+len(round.Idle)+len(round.Differences) > 0 {
		t.Errorf("a round: %+v, %v", round, err)
	}
}

// A row that a full pass and a round have both found is one difference.
func TestARowThatIsFoundTwiceIsOneDifference(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "UPDATE block SET n = n + 1 WHERE "+id(1)) // so that the round behind the pass looks at it too
	w.catchUp()
	s := w.find(w.layout.Tables[0], id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET n = -1 WHERE "+id(1))
	r := w.full()
	state, err := w.verifier.State(t.Context(), 0)
	if err != nil || len(r.Differences) != 1 || state.Differences != 1 {
		t.Errorf("%v, listed %d, counted %d: %v", r.Differences, len(r.Differences), state.Differences, err)
	}
}
