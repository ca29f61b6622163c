package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// acceptDDL is the way on after a change of a captured table.
const acceptDDL = "apply the change on all sides, or undo it; then shardctl doctor --acknowledge-ddl, shardctl catchup, and shardctl verify"

// sides calls fn for every side whose writes are captured now.
func (e *Exam) sides(fn func(side auditlog.Side, conn *pgx.Conn) error) error {
	if !e.capturing() {
		return nil
	}
	if err := fn(auditlog.SourceSide(e.layout), e.cfg.Source); err != nil || e.in(migrate.Completed) {
		return err
	}
	return e.each(func(name string, conn *pgx.Conn) error { return fn(auditlog.DatabaseSide(e.layout, name), conn) })
}

// capture: triggers, functions and logs of every captured table are as installed, and
// nothing happened to the table since that was accepted.
func capture(ctx context.Context, e *Exam) error {
	return e.sides(func(side auditlog.Side, conn *pgx.Conn) error {
		stopped, err := side.Stopped(ctx, conn)
		if err != nil {
			return err
		}
		if stopped {
			e.add(Broken, "capture.stopped", side.Name(), "shardctl doctor --repair, once no gap of this log stands", "capture was stopped at the log's hard limit: writes are not recorded")
		} else {
			e.captureOf(ctx, side, conn)
		}
		_, err = auditlog.NewWatch(side).Check(ctx, conn)
		var f *migrate.Failure
		switch {
		case errors.As(err, &f):
			e.add(Broken, "ddl", side.Name(), acceptDDL, "%s: %s", f.Message, f.Object)
		case err != nil:
			return err
		default:
			e.add(OK, "ddl", side.Name(), "", "no captured table changed since it was accepted")
		}
		return nil
	})
}

func (e *Exam) captureOf(ctx context.Context, side auditlog.Side, conn *pgx.Conn) {
	for _, t := range side.Tables() {
		object := t.Name() + " on " + side.Name()
		faults, relations, err := side.Faults(ctx, conn, t)
		switch {
		case err != nil:
			e.add(NotRun, "capture", object, "", "%v", err)
		case len(faults) > 0:
			e.add(Broken, "capture", object, acceptDDL, "%s", strings.Join(faults, "; "))
		default:
			e.add(OK, "capture", object, "", "triggers stand on %d relations, functions and log are as installed", relations)
		}
	}
}

// logs: how large they are, against the limits.
func logs(ctx context.Context, e *Exam) error {
	limits := e.cfg.Spec.Capture
	return e.sides(func(side auditlog.Side, conn *pgx.Conn) error {
		bytes, err := side.LogBytes(ctx, conn)
		if err != nil {
			return err
		}
		words := fmt.Sprintf("%d bytes; soft limit %d, hard limit %d", bytes, limits.LogSoftLimit, limits.LogHardLimit)
		switch {
		case bytes > limits.LogHardLimit:
			e.add(Broken, "log", side.Name(), "run shardctl catchup, or raise capture.log_hard_limit: above it capture stops", "%s", words)
		case bytes > limits.LogSoftLimit:
			e.add(Warning, "log", side.Name(), "run shardctl catchup; the backfill is paused above the soft limit", "%s", words)
		default:
			e.add(OK, "log", side.Name(), "", "%s", words)
		}
		return nil
	})
}

// positions: each is one that its log's side still remembers, and nothing was lost
// since.
func positions(ctx context.Context, e *Exam) error {
	if !e.capturing() {
		return nil
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		if err := e.position(ctx, name, store.Forward, conn, e.cfg.Source); err != nil || e.in(migrate.Completed) {
			return err
		}
		return e.position(ctx, name, store.Reverse, e.cfg.Source, conn)
	})
}

// position looks at one: written is the side that holds it, log the one that it speaks of.
func (e *Exam) position(ctx context.Context, name string, d store.Direction, written, log *pgx.Conn) error {
	object := name + " " + string(d)
	gap, err := store.Gap(ctx, log, e.name(), name, d)
	if err != nil {
		return err
	}
	if gap != "" {
		fix := "nothing is lost while no rollback is needed; it ends with shardctl complete"
		if d == store.Forward {
			fix = "shardctl prepare --database " + name + " copies it anew"
		}
		e.add(Broken, "gap", object, fix, "%s", gap)
	}
	p, err := store.LoadPosition(ctx, written, e.name(), name, d)
	if isNotFound(err) {
		e.add(Broken, "position", object, "run shardctl install", "there is none")
		return nil
	}
	if err != nil {
		return err
	}
	id, err := postgres.ReadIdentity(ctx, log)
	if err != nil {
		return err
	}
	there, err := store.MarkerExists(ctx, log, p.Marker, p.Snapshot)
	if err != nil {
		return err
	}
	switch {
	case p.SystemIdentifier != id.SystemIdentifier:
		e.add(Broken, "position", object, "check the DSN", "it is of the server with system identifier %s, this is %s", p.SystemIdentifier, id.SystemIdentifier)
	case !there:
		fix := "the log's side went back in time: the shards stay where they are"
		if d == store.Forward {
			fix = "the source went back in time: shardctl prepare --database " + name + " copies it anew"
		}
		e.add(Broken, "position", object, fix, "the marker of tick %d is not found on the side whose log it speaks of", p.Tick)
	default:
		e.add(OK, "position", object, "", "tick %d, its marker is found; timeline %d, now %d", p.Tick, p.Timeline, id.Timeline)
	}
	return nil
}
