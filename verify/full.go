package verify

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
)

// Full compares every row of every table, both ways, and then what was written
// meanwhile. A pass that was interrupted goes on with the first table that it was
// not through with. It changes no user data. Differences are a result, not an error.
func (v *Verifier) Full(ctx context.Context) (*Result, error) {
	if err := v.beginChains(ctx); err != nil {
		return nil, err
	}
	p, err := v.openPass(ctx, Full)
	if err != nil {
		return nil, err
	}
	err = p.during(ctx, func(ctx context.Context) error {
		if err := v.awaitReplica(ctx); err != nil {
			return err
		}
		if err := v.compareAll(ctx, p); err != nil {
			return err
		}
		_, err := v.DeltaCheck(ctx, v.cfg.Layout.Spec.DatabaseNames()...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.finish(ctx, 1); err != nil {
		return nil, err
	}
	return v.result(ctx, p, Detects{Rate: 0, Confidence: 1})
}

// comparable are the tables of which one side follows the other. Those without a way back
// are the databases' alone once these own them: what the source has is of the time before.
func (v *Verifier) comparable(ctx context.Context) ([]*layout.Table, error) {
	owners, err := v.readOwners(ctx)
	if err != nil {
		return nil, err
	}
	moved := false
	for name, o := range owners {
		moved = moved || o.Owner == name
	}
	return slices.DeleteFunc(slices.Clone(v.cfg.Layout.Tables), func(t *layout.Table) bool { return moved && !t.Everywhere() && !t.Returns() }), nil
}

func (v *Verifier) compareAll(ctx context.Context, p *pass) error {
	tables, err := v.comparable(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if p.done[t.No] {
			continue
		}
		res, err := v.compareTable(ctx, t)
		if err != nil {
			return err
		}
		if err := p.saveTable(ctx, t, res); err != nil {
			return err
		}
		p.rows += res.rows
	}
	return nil
}

// during runs fn while the pass's heartbeat goes.
func (p *pass) during(ctx context.Context, fn func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	g.Go(func() error { return p.alive(ctx) })
	g.Go(func() error {
		defer stop()
		return fn(ctx)
	})
	return g.Wait()
}
