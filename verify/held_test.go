package verify

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/store"
)

// openWorld has a clean pass, after which some comments were applied wrongly while an entry
// of the block of each, but of the last, lies beyond the position. Four undecided keys are kept.
func openWorld(t *testing.T, comments int) *world {
	w := blockWorld(t)
	w.full()
	w.verifier.limits.unsettled = 1
	w.source.Exec(t, "UPDATE comment SET body = 'new' WHERE id <= $1", comments+1)
	w.catchUp()
	for i := range comments + 1 {
		where := fmt.Sprintf("id = %d", i+1)
		s := w.find(w.layout.Tables[1], where)
		w.damage(s.db, "UPDATE "+s.table+" SET body = 'wrong' WHERE "+where)
	}
	w.source.Exec(t, "UPDATE block SET n = n WHERE id <> (SELECT block_id FROM comment WHERE id = $1)", comments+1)
	return w
}

// More keys are undecided than are kept, and no later entry names those that are not.
func TestARoundThatLeavesTooMuchOpenDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 10)
	ctx, both := t.Context(), []string{"db0", "db1"}
	w.source.Exec(t, "UPDATE block SET n = n") // nothing can be decided
	ends := func() string {
		return fmt.Sprint(w.source.Rows(t, "SELECT database, snapshot FROM shardctl.verify_round ORDER BY 1"))
	}
	record := func() string {
		return fmt.Sprint(w.source.Rows(t, "SELECT database, table_no, key FROM shardctl.verify_unsettled"))
	}
	w.source.Exec(t, "INSERT INTO shardctl.verify_unsettled VALUES ('m', 'db0', 2, '{500}')")
	end, recorded := ends(), record()
	for range 2 {
		if err := w.verifier.Delta(ctx, both); code(err) != "verify.unsettled" {
			t.Errorf("a round: %v", err)
		}
		if s, err := w.verifier.State(ctx, 0); err != nil || s.State != Partial {
			t.Errorf("while it is held: %+v, %v", s, err)
		}
		if got := ends(); got != end {
			t.Errorf("the chains moved from %s to %s", end, got)
		}
		if got := record(); got != recorded {
			t.Errorf("on record are %s, want %s", got, recorded)
		}
	}

	// The log is kept for it, but not for ever.
	if kept, err := Retain(ctx, w.conn(w.source), "m"); err != nil || len(kept) != 2 {
		t.Errorf("retained %v, %v", kept, err)
	}
	w.source.Exec(t, "UPDATE shardctl.verify_round SET at = at - interval '20 min', held = held - interval '20 min'")
	if _, err := w.verifier.DeltaCheck(ctx, both...); err != nil {
		t.Error(err)
	}
	if kept, err := Retain(ctx, w.conn(w.source), "m"); err != nil || len(kept) != 0 {
		t.Errorf("held for long, and retained %v, %v", kept, err)
	}

	now := w.source.Value(t, "SELECT pg_current_snapshot()")
	for i := range w.databases {
		w.save(i, store.Forward, now)
	}
	r, err := w.verifier.DeltaCheck(ctx, both...)
	if err != nil || len(r.Differences) != 11 || len(r.Broken)+r.Unsettled != 0 {
		t.Errorf("once it can be decided: %+v, %v", r, err)
	}
	if held := w.source.Value(t, "SELECT count(*) FROM shardctl.verify_round WHERE held IS NOT NULL"); held != "0" || record() != "[]" {
		t.Errorf("%s chains are held still, and on record are %s", held, record())
	}
}

// A round that cannot end found a difference, so that a full pass is due: it breaks, and
// does not find it again and again.
func TestARoundThatFoundSomethingIsNotHeld(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 10)
	r, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || len(r.Differences) != 1 || len(r.Broken) != 2 || r.Broken[0].Reason != tooManyOpen {
		t.Errorf("%+v, %v", r, err)
	}
	if s, err := w.verifier.State(t.Context(), 0); err != nil || s.State != Differences || s.Differences != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A row that changes all the time is named on every page of the log, and is one row.
func TestAnOpenKeyIsKeptOnce(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := t.Context()
	w.verifier.limits.unsettled = 1
	w.source.Exec(t, "UPDATE block SET n = 7 WHERE "+id(1))
	b, err := w.verifier.builder(ctx, w.verifier.servers())
	must(t, err)
	j := w.verifier.newJudge(b, w.layout.Tables[0], w.verifier.databases)
	for range 6 {
		must(t, j.check(ctx, []key{{w.source.Value(t, "SELECT md5('1')::uuid")}}))
	}
	if len(j.maybe) != 1 || j.overflow != 0 {
		t.Errorf("%d keys are open, and %d beyond", len(j.maybe), j.overflow)
	}
}

// A row lacks on one database for good, and is not up to date yet on another: it is not
// reported before both are decided, so that both must be looked at again.
func TestWhatDiffersOnOneDatabaseStaysOpenWithTheOthers(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := t.Context()
	w.source.Exec(t, "UPDATE plan SET name = 'later' WHERE id = 1")
	w.catchUp(0)
	plan := w.layout.Tables[2]
	w.damage(w.databases[0], "DELETE FROM "+w.verifier.places(plan, w.verifier.databases[0])[0].table+" WHERE id = 1")
	b, err := w.verifier.builder(ctx, w.verifier.servers())
	must(t, err)
	j := w.verifier.newJudge(b, plan, w.verifier.databases)
	must(t, j.check(ctx, []key{{"1"}}))
	if len(j.found) != 0 || len(j.maybe) != 1 || len(j.maybe[0].on) != 2 {
		t.Errorf("found %v, open %+v", lines(j.found), j.maybe)
	}
}

// A migration that an earlier build has begun goes on.
func TestStateOfAnEarlierBuildIsBroughtUp(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "ALTER TABLE shardctl.verify_round DROP COLUMN held")
	v := New(w.verifier.cfg)
	t.Cleanup(v.Close)
	if _, err := v.DeltaCheck(t.Context(), "db0", "db1"); err != nil {
		t.Fatal(err)
	}
	if s, err := v.State(t.Context(), 0); err != nil || s.State != Clean {
		t.Errorf("%+v, %v", s, err)
	}
}
