package auditlog_test

import (
	"testing"

	"github.com/shardctl/shardctl/migrate"
)

// TestRowsThatWereOrphansBetweenTwoTicks: a chunk that was read then has brought them
// to the shard of rows without a key, which no tick has ever seen them at.
func TestRowsThatWereOrphansBetweenTwoTicks(t *testing.T) {
	t.Parallel()
	tables, last := blocks(), migrate.Stray{Policy: "shard", Shard: 3}
	tables[1].NullKeys, tables[1].Orphans = last, last
	r := newRig(t, rigSpec{tables: tables, ddl: blockDDL})
	for name, c := range map[string]struct{ orphaned, adopted string }{
		"the parent is deleted, the child gets another":   {"DELETE FROM public.block WHERE id = 1", "UPDATE public.comment SET block_id = 2 WHERE id = 4"},
		"the parent gets another key, the child follows":  {"UPDATE public.block SET id = 3 WHERE id = 1", "UPDATE public.comment SET block_id = 3 WHERE id = 4"},
		"the parent is deleted and comes again":           {"DELETE FROM public.block WHERE id = 1", "INSERT INTO public.block VALUES (1, 5, 'again')"},
		"the parent is deleted, the child is too":         {"DELETE FROM public.block WHERE id = 1", "DELETE FROM public.comment WHERE id = 4"},
		"the child leaves for a parent that comes later":  {"UPDATE public.comment SET block_id = 9 WHERE id = 4", "INSERT INTO public.block VALUES (9, 5, 'late')"},
		"the child leaves for nothing, and then for more": {"UPDATE public.comment SET block_id = NULL WHERE id = 4", "UPDATE public.comment SET block_id = 2 WHERE id = 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r.clear(t)
			r.source.Exec(t, "INSERT INTO public.block VALUES (1, 1, 'x'), (2, 2, 'x'); INSERT INTO public.comment VALUES (4, 1, 'c')")
			r.level(t)
			r.source.Exec(t, c.orphaned)
			r.dbs[1].Exec(t, "SET shardctl.applier = 'm'; INSERT INTO shard_3.comment VALUES (4, 1, 'c') ON CONFLICT DO NOTHING; RESET shardctl.applier")
			r.source.Exec(t, c.adopted)
			r.level(t)
			r.want(t)
		})
	}
}
