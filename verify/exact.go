package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// Exact compares, in the window of a switch, all that is left since the last round,
// and the unsettled keys. It is called while the sharded tables' writers are kept
// out and the databases are level: then what differs is different, and nothing
// need be confirmed. Tables that exist everywhere do not change hands and may be
// written at that time; rounds look after them. An error names a difference, or says
// why not everything can be compared. Clients wait meanwhile: what can be asked at
// once is.
func (v *Verifier) Exact(ctx context.Context, databases []string) error {
	return v.remaining(ctx, databases, v.limits.unsettled, v.exactly)
}

// Room reports whether Exact would have at most half of the keys to compare that it may:
// to be asked before anybody waits for it, while writers go on.
func (v *Verifier) Room(ctx context.Context, databases []string) (bool, error) {
	err := v.remaining(ctx, databases, v.limits.unsettled/2, func(context.Context, *rest) error { return nil })
	if errors.Is(err, errTooMuch) {
		return false, nil
	}
	return err == nil, err
}

// rest is what is left to compare of level links.
type rest struct {
	of   *group
	b    builder
	keys [][]key // by the links' tables
}

// remaining collects what is left since the last round, at most limit keys for the links of
// one log, and gives it to fn.
func (v *Verifier) remaining(ctx context.Context, databases []string, limit int, fn func(context.Context, *rest) error) error {
	var round Round
	groups, err := v.groups(ctx, databases, &round)
	switch {
	case err != nil:
		return err
	case len(round.Broken) > 0:
		return stale(round.Broken[0].Database, round.Broken[0].Reason)
	case len(round.Idle) > 0:
		return stale(round.Idle[0], noRounds)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(v.limits.streams)
	for _, of := range groups {
		of.links[0].tables = slices.DeleteFunc(of.links[0].tables, func(t *layout.Table) bool { return t.Everywhere() })
		if len(of.links[0].tables) == 0 {
			continue
		}
		g.Go(func() error {
			w, err := v.newWork(ctx, of, "")
			if err != nil {
				return err
			}
			keys, err := w.collect(ctx, of.links[0].tables, limit)
			if err != nil {
				return err
			}
			if w.reason != "" {
				return stale(of.databases[0].Name, w.reason)
			}
			return fn(ctx, &rest{of, w.b, keys})
		})
	}
	return g.Wait()
}

func (v *Verifier) exactly(ctx context.Context, r *rest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(v.limits.streams)
	for i, t := range r.of.links[0].tables {
		if len(r.keys[i]) == 0 {
			continue
		}
		g.Go(func() error {
			j := v.newJudge(r.b, t, r.of.databases)
			j.owners = r.of.owners
			if err := j.exactly(ctx, r.keys[i]); err != nil {
				return err
			}
			if len(j.found) > 0 {
				return differ(j.found)
			}
			return nil
		})
	}
	return g.Wait()
}

// collect gives all keys of tables, parents first, if they are not too many.
func (w *work) collect(ctx context.Context, tables []*layout.Table, limit int) ([][]key, error) {
	keys, moved, reasons := make([][]key, len(tables)), make([][]key, len(tables)), make([]string, len(tables))
	var total atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.v.limits.streams)
	for i, t := range tables {
		if !slices.Contains(w.busy, t) {
			continue
		}
		g.Go(func() (err error) {
			reasons[i], err = w.v.entries(gctx, w.log, w.b, t, w.window, func(page []entry) error {
				for _, e := range page {
					keys[i] = append(keys[i], e.key)
					if e.moved {
						moved[i] = append(moved[i], e.key)
					}
				}
				return bounded(total.Add(int64(len(page))), limit)
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, t := range tables {
		waiting := w.waiting[t.No]
		keys[i] = append(keys[i], waiting...)
		if err := bounded(total.Add(int64(len(waiting))), limit); err != nil {
			return nil, err
		}
		if reasons[i] != "" {
			w.reason = reasons[i]
		}
		if err := w.follow(ctx, t, append(moved[i], waiting...)); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// errTooMuch says that more keys are left than may be compared while clients wait.
var errTooMuch = errors.New("too many keys are left")

func bounded(total int64, limit int) error {
	if total <= int64(limit) {
		return nil
	}
	return &migrate.Failure{Code: "verify.too_much", Message: fmt.Sprintf("more than %d keys are left to compare", limit),
		Hint: "let catchup come level, then try again", Exit: migrate.ExitRefused, Err: errTooMuch}
}

// exactly compares keys of sides that stand still.
func (j *judge) exactly(ctx context.Context, keys []key) error {
	for batch := range slices.Chunk(keys, j.v.limits.keys) {
		suspects, err := j.compare(ctx, batch, false)
		if err != nil || len(suspects) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		if suspects, err = j.compare(ctx, wanting(suspects), true); err != nil {
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

func wanting(suspects []suspect) []key {
	keys := make([]key, len(suspects))
	for i, s := range suspects {
		keys[i] = s.key
	}
	return keys
}
