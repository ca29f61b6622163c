package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// backInTime is the way out where a database knows more than the source.
const backInTime = "keep the application off the source, then run shardctl doctor --repair, which first raises the source's fences"

// owners: source, control rows and copies agree about who owns what. The highest
// epoch that is found anywhere wins.
func owners(_ context.Context, e *Exam) error {
	for _, d := range e.cfg.Spec.Databases {
		i := slices.IndexFunc(e.owners, func(o store.Ownership) bool { return o.Database == d.Name })
		if i < 0 {
			e.add(Broken, "owner", d.Name, "run shardctl prepare", "the source has no row that says who owns its shards")
			continue
		}
		e.ownerOf(e.owners[i])
	}
	return nil
}

func (e *Exam) ownerOf(o store.Ownership) {
	c, there := e.copies[o.Database]
	newest := e.newest[o.Database]
	switch {
	case newest.Epoch > o.Epoch:
		e.add(Broken, "owner", o.Database, backInTime, "the source says epoch %d, owner %s, but epoch %d, owner %s is known on the databases: the source went back in time",
			o.Epoch, o.Owner, newest.Epoch, newest.Owner)
	case !there && e.cfg.Databases[o.Database] == nil:
		e.add(NotRun, "owner", o.Database, "", "the source says epoch %d, owner %s; the database does not answer", o.Epoch, o.Owner)
	case !there && e.in(migrate.New):
		e.add(OK, "owner", o.Database, "", "epoch %d, owner %s; the database is not prepared yet", o.Epoch, o.Owner)
	case !there:
		e.add(Broken, "owner", o.Database, "check its DSN; if its state is lost, it has to be copied anew", "the database has no state of the migration")
	case c.Control.Epoch < o.Epoch, c.Control.Owner != o.Owner:
		e.add(Broken, "owner", o.Database, "if a cutover or rollback was interrupted, run it again: it finishes; else the database went back in time",
			"the source says epoch %d, owner %s, the database's control row epoch %d, owner %s", o.Epoch, o.Owner, c.Control.Epoch, c.Control.Owner)
	case c.Control.Term > o.Term:
		e.add(Broken, "owner", o.Database, backInTime, "the database has seen term %d, the source knows %d only: commits of the source are gone", c.Control.Term, o.Term)
	case !slices.Equal(slices.Sorted(slices.Values(c.Control.Shards)), slices.Sorted(slices.Values(o.Shards))):
		e.add(Broken, "owner", o.Database, "a person must look: shardctl topology show", "the source gives it %d shards, its control row names %d others", len(o.Shards), len(c.Control.Shards))
	default:
		e.add(OK, "owner", o.Database, "", "epoch %d, owner %s, term %d, %d shards, on the source and in its control row", o.Epoch, o.Owner, c.Control.Term, len(o.Shards))
		e.copyOf(o.Database, c)
	}
}

// copyOf: the database's copy of all ownership is not behind.
func (e *Exam) copyOf(database string, c store.Copy) {
	for _, o := range e.owners {
		i := slices.IndexFunc(c.Owners, func(have store.Ownership) bool { return have.Database == o.Database })
		if i >= 0 && c.Owners[i].Epoch < o.Epoch {
			e.add(Warning, "copy", database, "run the last cutover or rollback again: it finishes", "its copy says epoch %d of the shards of %s, the source %d", c.Owners[i].Epoch, o.Database, o.Epoch)
			return
		}
	}
	if len(c.Owners) > 0 {
		e.add(OK, "copy", database, "", "its copy of who owns what is the source's")
	}
}

// phase: what the migration's row says fits to who owns what.
func phase(_ context.Context, e *Exam) error {
	moved := 0
	for _, o := range e.owners {
		if o.Owner != store.OwnerSource {
			moved++
		}
	}
	fits := []migrate.Phase{migrate.New, migrate.Prepared, migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.RolledBack}
	switch {
	case moved > 0 && moved == len(e.owners):
		fits = []migrate.Phase{migrate.CutOver, migrate.Completed}
	case moved > 0:
		fits = []migrate.Phase{migrate.PartlyCutOver}
	}
	if !e.in(fits...) {
		e.add(Broken, "phase", "source", "a person must look: shardctl report", "the phase is %s, but %d of %d databases own their shards", e.migration.Phase, moved, len(e.owners))
		return nil
	}
	e.add(OK, "phase", "source", "", "%s, %d of %d databases own their shards", e.migration.Phase, moved, len(e.owners))
	return nil
}

// silence is the age of a heartbeat from which on a holder counts as hung.
const silence = 15 * time.Second

// leases: who holds which role, and whether they are heard of.
func leases(ctx context.Context, e *Exam) error {
	for _, role := range []store.Role{store.Operator, store.Applier, store.Verifier} {
		h, err := store.Holder(ctx, e.cfg.Source, e.name(), role)
		switch {
		case isNotFound(err):
			e.add(OK, "lease", string(role), "", "nobody holds it")
		case err != nil:
			return err
		case h.Age > silence:
			e.add(Warning, "lease", string(role), "the next command that needs it ends that session and takes over", "pid %d of %s on %s holds it and was last heard of %s ago", h.Who.PID, h.Who.OSUser, h.Who.Host, h.Age.Round(time.Second))
		case role == store.Operator:
			e.add(Warning, "lease", string(role), "run shardctl doctor again when it has ended: what changes hands looks broken meanwhile", "pid %d of %s on %s is at work", h.Who.PID, h.Who.OSUser, h.Who.Host)
		default:
			e.add(OK, "lease", string(role), "", "pid %d of %s on %s holds it, term %d", h.Who.PID, h.Who.OSUser, h.Who.Host, h.Term)
		}
	}
	return nil
}

// tables: the spec's tables are on the source, with their keys.
func tables(ctx context.Context, e *Exam) error {
	l, err := layout.Load(ctx, e.cfg.Source, e.cfg.Spec)
	var failures migrate.Failures
	var failure *migrate.Failure
	switch {
	case errors.As(err, &failures):
	case errors.As(err, &failure):
		failures = migrate.Failures{failure}
	case err != nil:
		return fmt.Errorf("read the tables: %w", err)
	}
	for _, f := range failures {
		e.add(Broken, "layout", f.Object, f.Hint, "%s", f.Message)
	}
	e.layout = l
	if len(failures) == 0 {
		e.add(OK, "layout", "source", "", "all %d tables are as the spec says", len(l.Tables))
	}
	return nil
}
