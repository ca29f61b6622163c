package doctor

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// sourceFences: a fence stands exactly where the database owns its shards.
func sourceFences(ctx context.Context, e *Exam) error {
	if e.in(migrate.New, migrate.Prepared, migrate.Aborted) {
		return nil
	}
	states, err := fence.SourceStates(ctx, e.cfg.Source, e.layout)
	if err != nil {
		return err
	}
	for _, d := range e.cfg.Spec.Databases {
		object, is := "source, for "+d.Name, states[d.Name]
		owned := e.shouldOwn(d.Name)
		switch {
		case owned && is != fence.Enabled:
			e.add(Broken, "fence.source", object, "shardctl doctor --repair raises it", "%s owns its shards, but the fence on the source is %s: both sides can be written", d.Name, is)
		case !owned && is == fence.Disabled:
			e.add(OK, "fence.source", object, "", "asleep, as the source owns the shards")
		case !owned && is == fence.Enabled:
			e.add(Broken, "fence.source", object, "if a cutover or rollback was interrupted, run it again: it finishes", "the source owns the shards, but its fence refuses their rows")
		case !owned:
			e.add(Broken, "fence.source", object, "shardctl doctor --acknowledge-ddl adds what lacks", "the fence is %s: a cutover would be refused", is)
		default:
			e.add(OK, "fence.source", object, "", "stands on every table and partition")
		}
	}
	return nil
}

// shouldOwn reports whether a database owns its shards by the highest epoch that is
// known anywhere.
func (e *Exam) shouldOwn(database string) bool {
	if n, known := e.newest[database]; known {
		for _, o := range e.owners {
			if o.Database == database && n.Epoch > o.Epoch {
				return n.Owner == database
			}
		}
	}
	return e.owner(database) == database
}

// databaseFences: closed while the source owns the shards, guarded once the database
// does.
func databaseFences(ctx context.Context, e *Exam) error {
	if e.in(migrate.New, migrate.Aborted) {
		return nil
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		is, err := fence.ReadDatabase(ctx, conn, e.layout, name)
		if err != nil {
			return err
		}
		if e.shouldOwn(name) {
			e.open(name, is)
		} else {
			e.closed(name, is)
		}
		e.copiesClosed(name, is)
		return nil
	})
}

const runAgain = "if a cutover or rollback was interrupted, run it again: it finishes; else shardctl doctor --repair"

func (e *Exam) open(name string, is fence.DatabaseState) {
	guarded := e.guarded()
	switch {
	case is.Closed != fence.Disabled:
		e.add(Broken, "fence.database", name, "run shardctl cutover again: it finishes", "it owns its shards, but its closed fence is %s", is.Closed)
	case guarded && is.Guard != fence.Enabled:
		e.add(Broken, "fence.guard", name, runAgain, "it owns its shards, but its placement guards are %s: a row could be written at a wrong place", is.Guard)
	case guarded:
		e.add(OK, "fence.guard", name, "", "open, and every sharded table is guarded")
	default:
		e.add(OK, "fence.database", name, "", "open")
	}
}

func (e *Exam) closed(name string, is fence.DatabaseState) {
	switch {
	case is.Closed != fence.Enabled:
		e.add(Broken, "fence.database", name, runAgain, "the source owns its shards, but its closed fence is %s: it can be written past the log", is.Closed)
	case is.Guard == fence.Enabled || is.Guard == fence.Mixed:
		e.add(Warning, "fence.guard", name, "run shardctl backfill again before the copy, or rollback again after it", "closed, but its placement guards are %s", is.Guard)
	default:
		e.add(OK, "fence.database", name, "", "closed, as the source owns its shards")
	}
}

// copiesClosed: everywhere tables are the source's to write, until complete hands them over.
func (e *Exam) copiesClosed(name string, is fence.DatabaseState) {
	if !e.hasEverywhere() || e.in(migrate.Completed) && e.cfg.Spec.Complete.EverywhereOwner != store.OwnerSource {
		return
	}
	if is.Everywhere != fence.Enabled {
		e.add(Broken, "fence.everywhere", name, "shardctl doctor --repair raises it", "the closed fence of its everywhere tables is %s: a copy could be written", is.Everywhere)
		return
	}
	e.add(OK, "fence.everywhere", name, "", "everywhere tables are closed")
}

func (e *Exam) hasEverywhere() bool { return e.anyTable((*layout.Table).Everywhere) }

func (e *Exam) guarded() bool {
	return e.anyTable(func(t *layout.Table) bool { return fence.Guarded(e.layout, t) })
}

func (e *Exam) anyTable(is func(*layout.Table) bool) bool {
	for _, t := range e.layout.Tables {
		if is(t) {
			return true
		}
	}
	return false
}
