package main

import (
	"context"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// requireSettled refuses what follows a switch while that is not carried out
// everywhere: it would take away what is needed to finish it.
func (s *session) requireSettled(ctx context.Context, last cutover.Direction) error {
	cfg, closeParts, err := s.switchConfig(ctx, last, nil)
	defer closeParts()
	if err != nil {
		return err
	}
	return cutover.Settled(ctx, cfg, last)
}

// unfinished names the command that has to be run again because a switch was killed
// together with its watchdog; "" while one is under way, or where nothing is left.
func (s *session) unfinished(ctx context.Context, doc *statusDocument) (cutover.Direction, error) {
	switch s.phase() {
	case migrate.Backfilled, migrate.RolledBack, migrate.PartlyCutOver, migrate.CutOver:
	default:
		return "", nil
	}
	running, err := store.LeaseRunning(ctx, s.source, s.spec.Migration, store.Operator)
	if err != nil || running {
		return "", err
	}
	for _, d := range doc.Databases {
		if d.unsettled && d.Owner == store.OwnerSource {
			return cutover.Back, nil
		}
		if d.unsettled {
			return cutover.Forward, nil
		}
	}
	held, err := store.LeftHeld(ctx, s.source, s.spec.Migration)
	return cutover.Direction(held), err
}

// unfinishedOverview says so, and what to run.
func (s *session) unfinishedOverview(ctx context.Context, doc *statusDocument) error {
	d, err := s.unfinished(ctx, doc)
	if err != nil || d == "" {
		return err
	}
	doc.Next = "shardctl " + string(d)
	doc.Problems = append(doc.Problems, "the last "+string(d)+" did not come to its end, and clients may be held: run shardctl "+string(d)+" again")
	return nil
}
