package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// Exact compares, in the window of a switch, all that is left since the last round,
// and the unsettled keys. It is called while the sharded tables' writers are kept
// out and the databases are level: then what differs is different, and nothing
// need be confirmed. Tables that exist everywhere do not change hands and may be
// written at that time; rounds look after them. An error names a difference, or says
// why not everything can be compared.
func (v *Verifier) Exact(ctx context.Context, databases []string) error {
	var round Round
	groups, err := v.groups(ctx, databases, &round)
	if err != nil {
		return err
	}
	if len(round.Broken) > 0 {
		return stale(databases[0], round.Broken[0])
	}
	if len(round.Idle) > 0 {
		return stale(round.Idle[0], noRounds)
	}
	for _, group := range groups {
		group[0].tables = slices.DeleteFunc(group[0].tables, func(t *layout.Table) bool { return t.Everywhere() })
		if err := v.exactly(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verifier) exactly(ctx context.Context, group []*link) error {
	first := group[0]
	if len(first.tables) == 0 {
		return nil
	}
	databases := make([]*server, len(group))
	for i, l := range group {
		databases[i] = l.database
	}
	b, err := v.builder(ctx, append([]*server{v.source}, databases...))
	if err != nil {
		return err
	}
	now, err := first.log.now(ctx, first.from.Snapshot)
	if err != nil {
		return err
	}
	w, err := v.newWork(ctx, b, first, databases, now.to)
	if err != nil {
		return err
	}
	for _, t := range first.tables {
		j := v.newJudge(b, t, databases)
		if err := j.readOwners(ctx); err != nil {
			return err
		}
		err := w.each(ctx, t, func(keys []key) error {
			if w.total > v.limits.unsettled {
				return migrate.Refuse("verify.too_much", t.Name(), fmt.Sprintf("more than %d keys are left to compare", v.limits.unsettled),
					"let catchup come level, then try again")
			}
			return j.exactly(ctx, keys)
		})
		if err != nil {
			return err
		}
		if len(j.found) > 0 {
			return differ(j.found)
		}
	}
	if w.reason != "" {
		return stale(databases[0].Name, w.reason)
	}
	return nil
}

// exactly compares keys of sides that stand still.
func (j *judge) exactly(ctx context.Context, keys []key) error {
	for batch := range slices.Chunk(keys, j.v.limits.keys) {
		suspects, err := j.compare(ctx, batch, true)
		if err != nil {
			return err
		}
		for _, s := range suspects {
			pairs := make([]pairing, 0, len(s.pairs))
			for _, p := range s.pairs {
				pairs = append(pairs, p)
			}
			j.report(s.home, pairs)
		}
	}
	return nil
}
