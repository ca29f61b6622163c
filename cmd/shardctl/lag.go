package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// backlogLimit bounds what status counts: past it the number is a lower bound.
const backlogLimit = 100_000

// captureOverview tells how the log stands and how far behind it each database is.
// A database's lag is the age of what it has applied, or nothing where the log holds
// no entry beyond it.
func (s *session) captureOverview(ctx context.Context, doc *statusDocument) error {
	switch s.phase() {
	case migrate.New, migrate.Prepared, migrate.Aborted, migrate.Completed:
		return nil
	}
	doc.Capture.Installed = true
	var err error
	if doc.Capture.Running, err = store.LeaseRunning(ctx, s.source, s.spec.Migration, store.Applier); err != nil {
		return err
	}
	if doc.Capture.ApplyRate, err = store.ApplyRate(ctx, s.source, s.spec.Migration); err != nil {
		return err
	}
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	side := auditlog.SourceSide(l)
	if _, err := auditlog.NewWatch(side).Check(ctx, s.source); err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	if doc.Capture.LogBytes, err = side.LogBytes(ctx, s.source); err != nil {
		return err
	}
	for i := range doc.Databases {
		d := &doc.Databases[i]
		if !d.Reachable {
			continue
		}
		if err := s.lagOf(ctx, l, d, doc); err != nil {
			doc.Problems = append(doc.Problems, fmt.Sprintf("database %s: %v", d.Name, err))
		}
	}
	if !doc.Capture.Running {
		doc.Problems = append(doc.Problems, "no catchup is running: the log grows; run shardctl catchup")
	}
	return nil
}

// lagOf tells how far behind a database is, in the direction in which it goes. Where its log
// does not reach back to it that is not known: nothing is ever applied across a gap.
func (s *session) lagOf(ctx context.Context, l *layout.Layout, d *databaseStatus, doc *statusDocument) error {
	spec, _ := s.spec.Database(d.Name)
	conn, err := postgres.Connect(ctx, postgres.Target{Name: d.Name, DSN: spec.DSN}, "status")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	log, written, side, direction := s.source, conn, auditlog.SourceSide(l), store.Forward
	if d.Owner != store.OwnerSource {
		log, written, side, direction = conn, s.source, auditlog.DatabaseSide(l, d.Name), store.Reverse
	}
	p, err := auditlog.Reaches(ctx, log, written, s.spec.Migration, d.Name, direction)
	if auditlog.IsGap(err) {
		d.gap = err
		return fmt.Errorf("gap: %w", err)
	}
	if err != nil {
		return err
	}
	backlog, err := side.Backlog(ctx, log, p.Snapshot, backlogLimit)
	if err != nil {
		return err
	}
	lag := 0.0
	if backlog.Entries > 0 {
		lag = p.Lag(time.Now()).Seconds()
	}
	d.LagSeconds = &lag
	doc.Capture.Backlog = max(doc.Capture.Backlog, backlog.Entries)
	worst := &doc.Capture.LagSeconds
	if direction == store.Reverse {
		worst = &doc.Rollback.LagSeconds
	}
	if *worst == nil || **worst < lag {
		*worst = &lag
	}
	return nil
}

// gapOverview names the way on where a copy has to start over.
func (s *session) gapOverview(_ context.Context, doc *statusDocument) error {
	var gaps []string
	for _, d := range doc.Databases {
		if d.gap != nil && d.Owner == store.OwnerSource {
			gaps = append(gaps, d.Name)
		}
	}
	doc.Next = nextAnew(gaps, doc.Next)
	return nil
}
