package auditlog

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/internal/store"
)

// read reads a group's batch in the tick's snapshot and stages it on the group's
// databases. Those that fail get their outcome noted; the others go on.
func (r *reader) read(ctx context.Context, tx pgx.Tx, g *group, now present, markers map[string]store.Marker, patience time.Duration, note func(outcome)) error {
	if err := r.checkLogs(ctx, tx, g, note); err != nil || len(g.databases) == 0 {
		return err
	}
	if _, err := r.watch.Check(ctx, tx); err != nil {
		return err
	}
	if err := g.measure(ctx, r, tx, now); err != nil {
		return err
	}
	if g.empty() {
		g.rest(now.at, note)
		return nil
	}
	if err := r.markFor(ctx, g, now, markers); err != nil {
		return err
	}
	tables := g.tables(r.a.plan)
	g.stages(ctx, tables, patience, note)
	for _, t := range tables {
		if err := r.readTable(ctx, tx, g, t); err != nil {
			return err
		}
	}
	for _, m := range g.members {
		if err := r.noteStrays(ctx, tx, g, m, now); err != nil {
			return err
		}
	}
	return nil
}

// markFor makes the position that the group will have durable on the source,
// before anything that is read at its snapshot is applied.
func (r *reader) markFor(ctx context.Context, g *group, now present, markers map[string]store.Marker) error {
	text := g.reached(now.now).String()
	m, there := markers[text]
	if !there {
		conn, err := r.mark.get(ctx)
		if err != nil {
			return err
		}
		if m, err = store.WriteMarker(ctx, conn, r.a.migration(), text); err != nil {
			return err
		}
		markers[text] = m
	}
	g.next = store.Position{SystemIdentifier: r.id.SystemIdentifier, Timeline: r.id.Timeline, Marker: m.ID, Snapshot: m.Snapshot, Tick: m.Tick, LSN: m.LSN}
	return nil
}

// stages opens the group's intakes, with a staging table for each table.
func (g *group) stages(ctx context.Context, tables []*tablePlan, patience time.Duration, note func(outcome)) {
	errs := make([]error, len(g.databases))
	var wait sync.WaitGroup
	for i, db := range g.databases {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			for _, t := range tables {
				if errs[i] == nil && db.takes(t) {
					_, errs[i] = db.stage(ctx, t, db.textual || g.retry)
				}
			}
		})
	}
	wait.Wait()
	var left []*database
	for i, db := range g.databases {
		if errs[i] != nil {
			o := newOutcome(db)
			o.err = errs[i]
			note(o)
			continue
		}
		left = append(left, db)
		g.members = append(g.members, &member{db: db, in: newIntake(ctx, &db.write, len(db.a.plan.home), patience), strays: map[int]bool{}})
	}
	g.databases = left
}

// takes reports whether rows of a table are staged for the database.
func (db *database) takes(t *tablePlan) bool {
	return t.Everywhere() || !db.moved && len(db.a.plan.spots(t, db.place)) > 0
}

// readTable streams one table to the group's databases.
func (r *reader) readTable(ctx context.Context, tx pgx.Tx, g *group, t *tablePlan) error {
	n := len(r.a.plan.layout.Spec.Databases)
	rt := &route{plan: r.a.plan, table: t, members: make([]*member, n), stages: make([]*stage, n)}
	textual := g.retry
	for _, m := range g.members {
		textual = textual || m.db.textual
	}
	for _, m := range g.members {
		if m.db.takes(t) {
			rt.stages[m.db.place] = m.db.stages[stageKey(t, textual)]
		} else if !m.db.moved {
			continue
		}
		rt.members[m.db.place] = m
		if w := g.wipes[t.No]; w != nil && rt.stages[m.db.place] != nil {
			m.in.of(rt.stages[m.db.place]).wipe = w
		}
	}
	format := t.format
	if textual {
		format = rowstream.Text
	}
	return rt.stream(ctx, tx, g.query(r.a.plan, t, textual), format)
}
