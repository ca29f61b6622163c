package auditlog_test

import "testing"

// TestDeletesGrowOldBeforeABackfill: catch-up prunes also where none has begun, and a
// chunk that noted an earlier tick is told so.
func TestDeletesGrowOldBeforeABackfill(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1})
	r.dbs[0].Exec(t, "DELETE FROM shardctl.pruned")
	r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, 'x'); DELETE FROM public.block")
	tick := r.tick(t)[0]
	r.source.Exec(t, "UPDATE shardctl.marker SET at = at - interval '2 hours'")
	must(t, r.applier.PruneTombstones(t.Context(), r.connect(t, r.sourceTarget()), r.connect(t, r.target(0)), "db0"))
	if got := r.dbs[0].Value(t, "SELECT count(*) FROM shardctl.m_tomb_1"); got != "0" {
		t.Errorf("%s tombstones are left", got)
	}
	if got := r.dbs[0].Value(t, "SELECT through = $1 FROM shardctl.pruned WHERE table_no = 1", tick.Number); got != "t" {
		t.Error("how far was pruned is not noted")
	}
}
