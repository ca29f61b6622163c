package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// ledgers: each database's own ledger has every chunk.
func ledgers(ctx context.Context, e *Exam) error {
	if !e.in(migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack) {
		return nil
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		missing, err := backfill.Missing(ctx, e.cfg.Source, conn, e.name())
		switch {
		case err != nil:
			return err
		case missing == 0:
			e.add(OK, "ledger", name, "", "its ledger has every chunk")
		case e.in(migrate.Backfilling):
			e.add(OK, "ledger", name, "", "%d chunks are still to be copied", missing)
		case e.owner(name) == name:
			e.add(Warning, "ledger", name, "run shardctl verify", "its ledger lacks %d chunks, though it owns its shards", missing)
		default:
			e.add(Broken, "ledger", name, "run shardctl backfill: it copies what lacks", "its ledger lacks %d chunks: it lost them", missing)
		}
		return nil
	})
}

// quarantineShown bounds how many keys are listed one by one.
const quarantineShown = 100

// quarantine: every key that could not be applied, with the reason.
func quarantine(ctx context.Context, e *Exam) error {
	if !e.capturing() {
		return nil
	}
	if err := e.kept(ctx, "source", e.cfg.Source); err != nil {
		return err
	}
	return e.each(func(name string, conn *pgx.Conn) error { return e.kept(ctx, name, conn) })
}

func (e *Exam) kept(ctx context.Context, side string, conn *pgx.Conn) error {
	keys, err := auditlog.Quarantine(ctx, conn, e.layout, quarantineShown+1)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if i == quarantineShown {
			e.add(Broken, "quarantine", side, "", "there are more keys than are listed")
			break
		}
		e.add(Broken, "quarantine", k.Table+":"+k.Key, "mend the row, or give it up: shardctl doctor --repair --agree '"+k.Table+":"+k.Key+"'",
			"%s, %s: %s: %s", k.Database, k.Direction, k.Reason, strings.TrimSpace(k.Error))
	}
	if len(keys) == 0 {
		e.add(OK, "quarantine", side, "", "empty")
	}
	return nil
}

// sequences: each database draws from a lane of its own.
func sequences(ctx context.Context, e *Exam) error {
	if e.cfg.Spec.Sequences != "stride" || len(e.cfg.Spec.Databases) == 1 || !e.in(migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack, migrate.Completed) {
		return nil
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		faults, n, err := cutover.LaneFaults(ctx, e.layout, e.cfg.Source, conn, name)
		switch {
		case err != nil:
			return err
		case len(faults) > 0:
			e.add(Broken, "sequence", name, "a person must look: two databases could give one number", "%s", strings.Join(faults, "; "))
		default:
			e.add(OK, "sequence", name, "", "%d sequences draw from its own lane", n)
		}
		return nil
	})
}

// verification: what is known of it.
func verification(ctx context.Context, e *Exam) error {
	if !e.in(migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack) {
		return nil
	}
	s, err := verify.ReadState(ctx, e.cfg.Source, e.name(), e.cfg.Spec.Cutover.VerifyMaxAge)
	if err != nil {
		return err
	}
	words := fmt.Sprintf("%s; %d rows compared, %d differences, %d unsettled", s.State, s.RowsCompared, s.Differences, s.Unsettled)
	if s.Reason != "" {
		words += "; " + s.Reason
	}
	switch s.State {
	case verify.Clean:
		e.add(OK, "verify", "source", "", "%s", words)
	case verify.Differences:
		e.add(Broken, "verify", "source", "shardctl verify --repair, then shardctl verify", "%s", words)
	default:
		e.add(Warning, "verify", "source", "run shardctl verify", "%s", words)
	}
	return nil
}

// routers: each leads where the source's ownership says.
func routers(ctx context.Context, e *Exam) error {
	if e.in(migrate.New, migrate.Aborted) {
		return nil
	}
	if e.cfg.RouterErr != nil {
		return e.cfg.RouterErr
	}
	doc, err := topology.Build(e.cfg.Spec, e.owners)
	if err != nil {
		return err
	}
	before := true
	for _, o := range e.owners {
		before = before && o.Owner == store.OwnerSource && o.Epoch <= 1
	}
	for _, r := range e.cfg.Routers {
		err := r.ReadBack(ctx, doc)
		switch {
		case err == nil:
			e.add(OK, "router", r.Name(), "", "leads where the source says, epoch %d", doc.Epoch)
		case before:
			e.add(Warning, "router", r.Name(), "shardctl topology push, before the cutover", "was not told yet: %v", err)
		case isConnect(err):
			e.add(NotRun, "router", r.Name(), "", "%v", err)
		default:
			e.add(Broken, "router", r.Name(), "shardctl topology push; if a cutover or rollback was interrupted, run it again", "%v", err)
		}
	}
	return nil
}
