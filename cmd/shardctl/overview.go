package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// lookTimeout bounds what status waits for a database that does not answer.
const lookTimeout = 3 * time.Second

// overview assembles the status document. A database that cannot be reached is
// shown as that; the source has to answer.
func (s *session) overview(ctx context.Context) (statusDocument, error) {
	doc := emptyStatus(s.spec)
	doc.Phase, doc.Next = s.phase(), s.phase().Next()
	if s.migration == nil {
		return doc, nil
	}
	owners, err := s.owners(ctx)
	if err != nil {
		return doc, err
	}
	for _, o := range owners {
		doc.Epoch = max(doc.Epoch, o.Epoch)
		if o.Owner != store.OwnerSource {
			doc.Cutover.ShardsMoved += len(o.Shards)
		}
		doc.Databases = append(doc.Databases, s.lookAt(ctx, o, &doc))
	}
	steps := []func(context.Context, *statusDocument) error{s.captureOverview, s.copyOverview, s.switchOverview, s.rollbackOverview, s.unfinishedOverview, s.gapOverview}
	for _, step := range steps {
		if err := step(ctx, &doc); err != nil {
			return doc, err
		}
	}
	return doc, nil
}

// owners reads the source's ownership rows, in the spec's order of databases.
func (s *session) owners(ctx context.Context) ([]store.Ownership, error) {
	if s.migration == nil {
		return nil, nil
	}
	rows, err := store.LoadOwnership(ctx, s.source, s.spec.Migration)
	if err != nil {
		return nil, err
	}
	var out []store.Ownership
	for _, d := range s.spec.Databases {
		for _, o := range rows {
			if o.Database == d.Name {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// lookAt asks one database; what is wrong with it becomes a problem.
func (s *session) lookAt(ctx context.Context, o store.Ownership, doc *statusDocument) databaseStatus {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	out := databaseStatus{Name: o.Database, Owner: o.Owner}
	problem := func(err error) { doc.Problems = append(doc.Problems, fmt.Sprintf("database %s: %v", o.Database, err)) }
	d, _ := s.spec.Database(o.Database)
	conn, err := postgres.Connect(ctx, postgres.Target{Name: o.Database, DSN: d.DSN}, "status")
	if err != nil {
		problem(err)
		return out
	}
	defer postgres.CloseQuietly(ctx, conn)
	out.Reachable = true
	known, err := store.LoadCopy(ctx, conn, s.spec.Migration)
	if errors.Is(err, store.ErrNotFound) || postgres.SQLState(err) == undefinedTable {
		return out // not prepared yet, or removed
	}
	if err != nil {
		problem(err)
		return out
	}
	control := known.Control
	out.Held, out.sourceLost = control.Held, known.SourceLost
	out.unsettled = control.Owner != o.Owner || control.Epoch < o.Epoch
	if known.SourceLost {
		problem(errors.New("it was completed without the source: this one was declared lost and is no way back"))
	}
	if control.Epoch > o.Epoch {
		problem(fmt.Errorf("it knows epoch %d, the source only %d: the source went back in time", control.Epoch, o.Epoch))
	}
	if err := s.forwardOverview(ctx, conn, &out); err != nil {
		problem(err)
	}
	return out
}

// undefinedTable is the SQLSTATE of state that is not there.
const undefinedTable = "42P01"

func (s *session) forwardOverview(ctx context.Context, conn *pgx.Conn, out *databaseStatus) error {
	n, err := store.Quarantined(ctx, conn, s.spec.Migration, out.Name, store.Forward)
	if err != nil {
		return err
	}
	out.Quarantined = n
	return nil
}

func (s *session) switchOverview(ctx context.Context, doc *statusDocument) (err error) {
	doc.countMoved(s.spec)
	doc.Cutover.SourceDroppedAt = s.migration.SourceDroppedAt
	doc.Cutover.LastPause, err = store.LastPause(ctx, s.source, s.spec.Migration)
	if err == nil && doc.Capture.LagSeconds != nil && doc.Cutover.State != "done" {
		predicted := predictedPause(doc.Capture.Backlog, doc.Capture.ApplyRate, doc.Cutover.LastPause)
		doc.Cutover.Predicted = &predicted
	}
	return err
}

const (
	usualPauseMS   = 150   // of a switch with nothing to drain: routers, locks, sequences, opening
	usualApplyRate = 10000 // rows a second, where none was measured
)

// predictedPause is, in milliseconds, what a cutover would hold the routers for now: the
// drain of the backlog at the measured rate, and all else as in the last switch.
func predictedPause(backlog int64, rate, last *float64) float64 {
	rows, rest := float64(usualApplyRate), float64(usualPauseMS)
	if rate != nil && *rate > 0 {
		rows = *rate
	}
	if last != nil {
		rest = *last
	}
	return float64(backlog)/rows*1000 + rest
}

// strayOverview tells of writes that went around the source's fences.
func (s *session) strayOverview(ctx context.Context, database string, doc *statusDocument) error {
	n, err := store.Strays(ctx, s.source, s.spec.Migration, database)
	if n > 0 {
		doc.Problems = append(doc.Problems, fmt.Sprintf("%d writes reached the source for shards that %s owns (shardctl.stray): they are not applied, a rollback puts the rows of %s in their place", n, database, database))
	}
	return err
}

// rollbackOverview says whether a rollback could be had now, and if not why.
func (s *session) rollbackOverview(ctx context.Context, doc *statusDocument) error {
	no := func(format string, args ...any) {
		reason := fmt.Sprintf(format, args...)
		doc.Rollback.Reason = &reason
	}
	doc.Rollback.WindowEndsAt = s.migration.WindowEndsAt
	switch s.phase() {
	case migrate.CutOver, migrate.PartlyCutOver:
	case migrate.Completed:
		no("complete")
		return nil
	case migrate.RolledBack:
		no("rolled back already")
		return nil
	default:
		return nil
	}
	doc.Rollback.Available, doc.Rollback.Reason = true, nil
	for _, t := range s.spec.Tables {
		if t.Rollback == "none" && !t.Everywhere {
			doc.Rollback.Available = false
			no("table %s has no way back: the spec says rollback: none", t.Name)
		}
	}
	for _, d := range doc.Databases {
		if d.Owner == store.OwnerSource {
			continue // its shards are not moved
		}
		parked, err := store.Quarantined(ctx, s.source, s.spec.Migration, d.Name, store.Reverse)
		if err != nil {
			return err
		}
		gap, err := store.Gap(ctx, s.source, s.spec.Migration, d.Name, store.Forward)
		if err != nil {
			return err
		}
		if gap != "" {
			doc.Problems = append(doc.Problems, fmt.Sprintf("database %s: gap: its everywhere tables follow the source no longer: %s", d.Name, gap))
		}
		switch {
		case d.sourceLost:
			doc.Rollback.Available = false
			no("database %s was completed without the source", d.Name)
		case d.gap != nil:
			doc.Rollback.Available = false
			no("gap: %v", d.gap)
		case gap != "":
			doc.Rollback.Available = false
			no("the source's log has a gap for %s, so that writes to the source for its shards may be unknown: %s", d.Name, gap)
		case parked > 0:
			doc.Rollback.Available = false
			no("%d keys of %s cannot be written to the source", parked, d.Name)
		case !d.Reachable:
			doc.Rollback.Available = false
			no("database %s cannot be reached; the others can be rolled back by name: shardctl rollback --database D", d.Name)
		}
		if err := s.strayOverview(ctx, d.Name, doc); err != nil {
			return err
		}
	}
	if end := s.migration.WindowEndsAt; end != nil && time.Now().After(*end) {
		doc.Problems = append(doc.Problems, "the rollback window ended at "+end.Format(time.RFC3339)+": run shardctl complete, or cutover --extend")
	}
	return nil
}

func (s *session) copyOverview(ctx context.Context, doc *statusDocument) error {
	v, err := verify.ReadState(ctx, s.source, s.spec.Migration, s.spec.Cutover.VerifyMaxAge)
	if err != nil {
		return err
	}
	doc.Verify = v
	if v.State == verify.Clean && s.phase() == migrate.Backfilled {
		doc.Next = "shardctl cutover"
	}
	b, err := backfill.ReadStatus(ctx, s.source, s.spec)
	if err != nil {
		return err
	}
	doc.Backfill = b
	for _, d := range doc.Databases {
		if d.Owner == store.OwnerSource && slices.ContainsFunc(b.Modes, func(m backfill.ModeStatus) bool { return m.Database == d.Name && !m.Finished }) {
			doc.Next = "shardctl backfill"
		}
	}
	return nil
}
