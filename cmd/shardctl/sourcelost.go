package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// termMargin is how far the terms are raised without the source that draws them: if it
// comes back to life, whatever it starts is stale.
const termMargin = 1 << 40

// survivors is a migration without its source.
type survivors struct {
	*session // without a source
	layout   *layout.Layout
	conns    map[string]*pgx.Conn
	owners   []store.Ownership
	journal  *store.Journal
	term     int64
}

// sourceLost completes the migration from what the databases know.
func (a *app) sourceLost(ctx context.Context) error {
	spec, err := migrate.Load(a.File)
	if err != nil {
		return err
	}
	s := &session{app: a, spec: spec}
	if err := s.refuseIfSourceAnswers(ctx); err != nil {
		return err
	}
	conns, err := s.databases(ctx, store.SourceLostCommand)
	if err != nil {
		return err
	}
	defer closeAll(ctx, conns)
	v := &survivors{session: s, layout: layout.ByName(spec), conns: conns, journal: store.NewJournal(spec.Migration, store.SourceLostCommand)}
	over, err := v.look(ctx)
	if err != nil {
		return err
	}
	if over {
		return v.printLost(nothingToDo)
	}
	if err := a.confirm("complete", "Is the source of "+spec.Migration+" lost for good? The databases own everything afterwards, and there is no way back."); err != nil {
		return err
	}
	if err := v.end(ctx); err != nil {
		return err
	}
	return v.printLost("done")
}

func (v *survivors) printLost(outcome string) error {
	return v.print(done{Phase: migrate.Completed, Done: outcome}, func(w io.Writer) {
		if outcome == nothingToDo {
			fmt.Fprintln(w, nothingToDo)
			return
		}
		fmt.Fprintln(w, "completed without the source; the databases own their shards and their copies of everywhere tables")
	})
}

// refuseIfSourceAnswers: a person's word is not enough against the server's.
func (s *session) refuseIfSourceAnswers(ctx context.Context) error {
	look, cancel := context.WithTimeout(ctx, sourceLook)
	defer cancel()
	conn, err := postgres.Connect(look, s.sourceTarget(), store.SourceLostCommand)
	if err == nil {
		postgres.CloseQuietly(ctx, conn)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil || refused(err):
		return &migrate.Failure{Code: "source.reachable", Object: "source", Message: "it answers, so it is not lost", Exit: migrate.ExitRefused, Err: err,
			Hint: "run shardctl complete; if another server has its address now, correct source.dsn"}
	case silent(err):
		return nil
	}
	return err
}

// look reads every database's copy and refuses unless all shards are the databases'. It
// reports whether all was done before.
func (v *survivors) look(ctx context.Context) (over bool, err error) {
	found := map[string]store.Copy{}
	over = true
	for _, d := range v.spec.Databases {
		one, err := store.LoadCopy(ctx, v.conns[d.Name], v.spec.Migration)
		if errors.Is(err, store.ErrNotFound) || err == nil && one.Control.Database != d.Name {
			return false, migrate.Refuse("database.other_server", d.Name, "this is not the database that the migration was prepared on", "check its DSN in the spec")
		}
		if err != nil {
			return false, fmt.Errorf("database %s: %w", d.Name, err)
		}
		found[d.Name] = one
		over = over && one.SourceLost
		v.term = max(v.term, one.Control.Term)
	}
	v.owners = store.Newest(found)
	for _, o := range v.owners {
		if o.Owner == store.OwnerSource {
			return false, migrate.Refuse("source.owns", o.Database, fmt.Sprintf("the source owns its %d shards (epoch %d), so that what is here is a copy", len(o.Shards), o.Epoch),
				"bring the source back, from a backup if need be")
		}
	}
	return over, nil
}

// end does all of it; each part may be done already. The databases serve before anything
// is cleared away.
func (v *survivors) end(ctx context.Context) error {
	for _, d := range v.spec.Databases {
		if err := store.LockWithoutSource(ctx, v.conns[d.Name], v.spec.Migration, d.Name); err != nil {
			return err
		}
	}
	if err := v.record(ctx, "started", nil); err != nil {
		return err
	}
	err := v.serve(ctx)
	if err == nil {
		err = v.each(ctx, v.clear)
	}
	if err != nil {
		clean, cancel := postgres.Cleanup(ctx)
		defer cancel()
		return errors.Join(err, v.record(clean, "failed", map[string]any{"error": err.Error()}))
	}
	return v.record(ctx, "ok", map[string]any{"owners": v.owners})
}

func (v *survivors) serve(ctx context.Context) error {
	v.term += termMargin
	err := v.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		return store.RaiseControlTerm(ctx, conn, v.spec.Migration, v.term)
	})
	if err != nil {
		return err
	}
	if err := v.each(ctx, v.open); err != nil {
		return err
	}
	return v.lead(ctx)
}

// each works on one database after the other.
func (v *survivors) each(ctx context.Context, fn func(context.Context, string, *pgx.Conn) error) error {
	for _, d := range v.spec.Databases {
		if err := fn(ctx, d.Name, v.conns[d.Name]); err != nil {
			return fmt.Errorf("complete on %s: %w", d.Name, err)
		}
	}
	return nil
}

func (v *survivors) record(ctx context.Context, outcome string, detail any) error {
	return v.each(ctx, func(ctx context.Context, _ string, conn *pgx.Conn) error {
		return v.journal.Record(ctx, conn, "complete", outcome, detail)
	})
}

// open makes a database what its newest ownership says. It is closed where a switch
// was under way when the source died.
func (v *survivors) open(ctx context.Context, name string, conn *pgx.Conn) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		state, err := fence.ReadDatabase(ctx, tx, v.layout, name)
		if err != nil {
			return err
		}
		shut := state.Closed != fence.Disabled
		turn := func() error { return nil }
		if shut {
			turn = func() error { return target.Open(ctx, tx, v.layout, name) }
		}
		return turned(ctx, tx, v.spec.Migration, shutTables(shut, fence.DatabaseTables(v.layout, name)), func(c store.Control) error {
			if c.Term != v.term {
				return fmt.Errorf("control row: %w", store.ErrTerm)
			}
			if err := v.own(ctx, tx, c); err != nil {
				return err
			}
			return turn()
		})
	})
	if err != nil {
		return err
	}
	return target.Settle(ctx, conn, v.layout)
}

// own writes the newest owners into a database's state.
func (v *survivors) own(ctx context.Context, tx pgx.Tx, c store.Control) error {
	for _, o := range v.owners {
		if o.Database == c.Database {
			c.Owner, c.Epoch = o.Owner, o.Epoch
		}
		if err := store.SaveOwnership(ctx, tx, v.spec.Migration, o); err != nil {
			return err
		}
	}
	return store.SaveControl(ctx, tx, v.spec.Migration, c)
}

func shutTables(shut bool, tables []string) []string {
	if !shut {
		return nil
	}
	return tables
}

// lead makes the routers lead to the databases and releases what a switch that was under
// way may have held.
func (v *survivors) lead(ctx context.Context) error {
	doc, err := topology.Build(v.spec, v.owners)
	if err != nil {
		return err
	}
	routers, closeRouters, err := v.routers(ctx)
	defer closeRouters()
	if err != nil {
		return err
	}
	for _, r := range routers {
		if err := r.Commit(ctx, doc); err != nil {
			return err
		}
		if err := r.ReadBack(ctx, doc); err != nil {
			return err
		}
		if err := r.Resume(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clear ends what only the source needed: the everywhere tables' closed fence and the
// reverse log.
func (v *survivors) clear(ctx context.Context, name string, conn *pgx.Conn) error {
	var untold []string
	err := openEverywhere(ctx, v.layout, name, conn, func(tx pgx.Tx) (err error) {
		untold, err = cutover.AdvanceEverywhereAlone(ctx, v.layout, name, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(untold) > 0 {
		v.log.Warn().Str("database", name).Strs("sequences", untold).Msg("no column tells how far the source has drawn: set them past what their tables hold")
	}
	return auditlog.UninstallLost(ctx, v.layout, name, conn)
}
