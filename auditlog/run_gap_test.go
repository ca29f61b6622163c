package auditlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/auditlog"
)

// A gap of a database that owns its shards ends that it follows the source. What it
// writes still goes back, and the others go on; one that is to drain says so and ends.
func TestAGapOfAnOwnerHoldsBackNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, twenty)
	r.level(t)
	key := 1
	for _, db := r.at(t, key); db != 0; _, db = r.at(t, key) {
		key++
	}
	r.own(t, "db0")
	r.source.Exec(t, "INSERT INTO shardctl.gap VALUES ('m', 'db0', 'forward', 'for the test')")
	run := r.run(t, r.newApplier(t, 0, rigSpec{}), auditlog.RunOptions{})
	if p := r.heard(t, auditlog.Waiting, "db0"); failureOf(p.Err) == nil || failureOf(p.Err).Code != "gap" {
		t.Errorf("waiting for %v", p.Err)
	}
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'after')")
	soon(t, func() bool { return r.dbs[1].Value(t, "SELECT count(*) FROM public.plan") == "1" })
	r.write(t, key, "UPDATE %.block SET body = 'back' WHERE id = "+sprintf("%d", key))
	soon(t, func() bool {
		return r.source.Value(t, "SELECT body FROM public.block WHERE id = "+sprintf("%d", key)) == "back"
	})
	if n := r.dbs[0].Value(t, "SELECT count(*) FROM public.plan"); n != "0" {
		t.Error("a tick went on over the gap")
	}
	if err := run.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	failure(t, r.newApplier(t, 0, rigSpec{}).Run(t.Context(), auditlog.RunOptions{Once: true}), "gap", "db0")
	r.giveBack(t)
	failure(t, r.newApplier(t, 0, rigSpec{}).Run(t.Context(), auditlog.RunOptions{}), "gap", "shardctl prepare --database db0")
}

// Capture that was stopped goes on over standing gaps with an empty log; a position from
// before is refused without its gap, too.
func TestCaptureGoesOnOverGaps(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock, databases: 1})
	side, conn := auditlog.SourceSide(s.layout), s.connect(t, s.env().Source)
	if resumed, err := side.ResumeOverGap(t.Context(), conn); err != nil || resumed {
		t.Errorf("capture that was not stopped was resumed: %v", err)
	}
	s.source.Exec(t, "INSERT INTO public.block VALUES (1, 1)")
	before := s.source.Value(t, "SELECT pg_current_snapshot()")
	s.spec.Capture.LogHardLimit = 1
	_, err := side.CheckSize(t.Context(), conn)
	must(t, err)
	s.source.Exec(t, "DELETE FROM shardctl.gap")
	writer, err := s.connect(t, s.env().Source).Begin(t.Context())
	must(t, err)
	_, err = writer.Exec(t.Context(), "INSERT INTO public.block VALUES (2, 1)")
	must(t, err)

	resumed, err := side.ResumeOverGap(t.Context(), conn)
	must(t, err)
	if gaps, err := auditlog.LoadGaps(t.Context(), conn, "m"); err != nil || !resumed || len(gaps) != 1 {
		t.Errorf("resumed: %v, gaps: %v, %v", resumed, gaps, err)
	}
	wantRows(t, "low water", s.source.Rows(t, "SELECT segment FROM shardctl.low_water ORDER BY 1"), "0", "1")
	if covered(t, s, before) {
		t.Error("a position from before covers what was emptied")
	}
	s.source.Exec(t, "INSERT INTO public.block VALUES (3, 1)")
	wantRows(t, "recorded", logOf(t, s.source, 1, "n1"), "3")

	failure(t, side.AwaitWriters(t.Context(), conn, 0), "restart.writers", "INSERT INTO public.block")
	ended := make(chan error, 1)
	go func() { ended <- side.AwaitWriters(t.Context(), conn, time.Minute) }()
	must(t, writer.Commit(t.Context()))
	must(t, <-ended)
}

// covered reports whether a snapshot covers all low-water marks.
func covered(t *testing.T, s *stage, snapshot string) bool {
	t.Helper()
	return len(s.source.Rows(t, "SELECT FROM shardctl.low_water WHERE pg_snapshot_xmax(snapshot) > pg_snapshot_xmax('"+snapshot+"'::pg_snapshot)")) == 0
}
