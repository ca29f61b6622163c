package verify

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// A transaction that was running when the applier took its snapshot is beyond the
// position, though its number lies below the position's end.
func TestATransactionThatWasRunningAtThePositionExplains(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := context.Background()
	long, err := w.source.Connect(t).Begin(ctx)
	must(t, err)
	_, err = long.Exec(ctx, "UPDATE block SET f = -1 WHERE "+id(1))
	must(t, err)
	w.source.Exec(t, "UPDATE block SET f = -1 WHERE "+id(2))
	w.catchUp()
	must(t, long.Commit(ctx))
	if r := w.full(); len(r.Differences) > 0 || r.Unsettled == 0 {
		t.Errorf("%+v", r)
	}
	w.catchUp()
	if r, err := w.verifier.DeltaCheck(ctx, "db0", "db1"); err != nil || r.Unsettled+len(r.Differences) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A child has no entry of its own when its parent takes it along.
func TestAParentThatMovesExplainsItsChildren(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "UPDATE comment SET body = 'touched' WHERE id = 2")
	w.catchUp()
	w.source.Exec(t, "UPDATE block SET ws = ws + 1 WHERE id = (SELECT block_id FROM comment WHERE id = 2)")
	r, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || len(r.Differences) > 0 || r.Unsettled != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	w.catchUp()
	r, err = w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || r.Unsettled+len(r.Differences) > 0 || r.Checked < 2 {
		t.Errorf("%+v, %v", r, err)
	}
	// The applier took the parent and forgot the child: only following the parent tells.
	w.source.Exec(t, "UPDATE block SET ws = ws + 1 WHERE id = (SELECT block_id FROM comment WHERE id = 3)")
	before := w.find(w.layout.Tables[1], "id = 3")
	w.catchUp()
	after := w.find(w.layout.Tables[1], "id = 3")
	if before == after {
		t.Fatal("the row did not move")
	}
	w.move(after, before, "id = 3", false)
	r, err = w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || len(r.Differences) != 1 || r.Differences[0].Kind != WrongLocation {
		t.Errorf("%+v, %v", r, err)
	}
}

// In a snapshot that is older than a rewrite the table reads as empty; the lock
// comes first.
func TestARewriteUnderWayIsNoDifference(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := context.Background()
	block := w.layout.Tables[0]
	s := w.find(block, id(1))
	server, err := w.verifier.database(s.name)
	must(t, err)
	ddl, err := s.db.Connect(t).Begin(ctx)
	must(t, err)
	_, err = ddl.Exec(ctx, "ALTER TABLE "+s.table+" ALTER COLUMN n TYPE numeric USING n + 0")
	must(t, err)
	b, err := w.verifier.builder(ctx, w.verifier.servers())
	must(t, err)
	j := w.verifier.newJudge(b, block, w.verifier.databases)
	must(t, j.knowOwners(ctx))
	keys := []key{{w.source.Value(t, "SELECT md5('1')::uuid")}}
	done := make(chan verdict, 1)
	go func() {
		for {
			v, err := j.confirmOn(ctx, server, keys)
			if err != nil || v[0].decided {
				if err == nil {
					done <- v[0]
				}
				close(done)
				return
			}
		}
	}()
	pgtest.Eventually(t, 10*time.Second, func() bool {
		return s.db.Value(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") != "0"
	})
	must(t, ddl.Commit(ctx))
	if v, ok := <-done; !ok || !v.clean() {
		t.Errorf("verdict %+v", v)
	}
}
