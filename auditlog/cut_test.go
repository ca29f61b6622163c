package auditlog_test

import (
	"fmt"
	"testing"
)

// TestChildrenAreFoundWhateverTheCut: where a child was is what its parent's key was,
// also if the parent's entry and the child's are in two batches of one backlog.
func TestChildrenAreFoundWhateverTheCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{batch: 1})
	for name, c := range map[string][]string{
		"the parent moves, then the child leaves it":     {"UPDATE public.block SET workspace_id = $ WHERE id = 2", "UPDATE public.comment SET block_id = 7 WHERE id = 4"},
		"the child leaves its parent, which then moves":  {"UPDATE public.comment SET block_id = 7 WHERE id = 4", "UPDATE public.block SET workspace_id = $ WHERE id = 2"},
		"the parent moves, then the child is deleted":    {"UPDATE public.block SET workspace_id = $ WHERE id = 2", "DELETE FROM public.comment WHERE id = 4"},
		"the child is deleted, then the parent moves":    {"DELETE FROM public.comment WHERE id = 4", "UPDATE public.block SET workspace_id = $ WHERE id = 2"},
		"the parent moves twice, and the child after it": {"UPDATE public.block SET workspace_id = $ WHERE id = 2", "UPDATE public.block SET workspace_id = 1 WHERE id = 2", "UPDATE public.comment SET block_id = 7 WHERE id = 4"},
		"the child gets another key, then its parent":    {"UPDATE public.comment SET id = 5 WHERE id = 4", "UPDATE public.block SET workspace_id = $ WHERE id = 2"},
		"its parent gets another key, then the child":    {"UPDATE public.block SET workspace_id = $ WHERE id = 2", "UPDATE public.comment SET id = 5 WHERE id = 4"},
		"the parent is another row with the same key":    {"DELETE FROM public.block WHERE id = 2", "INSERT INTO public.block VALUES (2, $, 'again')", "DELETE FROM public.comment WHERE id = 4"},
	} {
		t.Run(name, func(t *testing.T) {
			for key := 2; key < 9; key++ {
				r.clear(t)
				r.source.Exec(t, "INSERT INTO public.block VALUES (2, 1, 'x'), (7, 7, 'x'); INSERT INTO public.comment VALUES (4, 2, 'c')")
				r.level(t)
				for _, sql := range c {
					r.source.Exec(t, replaceKey(sql, key))
					r.source.Exec(t, "INSERT INTO public.plan SELECT coalesce(max(id), 0) + 1, 'p' FROM public.plan")
					r.source.Exec(t, "UPDATE public.plan SET name = 'q' WHERE id = (SELECT max(id) FROM public.plan)")
				}
				r.level(t)
				r.want(t)
			}
		})
	}
}

func replaceKey(sql string, key int) string {
	out := ""
	for _, c := range sql {
		if c == '$' {
			out += fmt.Sprint(key)
		} else {
			out += string(c)
		}
	}
	return out
}
