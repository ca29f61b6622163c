package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// settledOn is the owner of a database's shards once a switch in that direction is
// done.
func (d Direction) settledOn(database string) string {
	if d == Forward {
		return database
	}
	return store.OwnerSource
}

// subject are the databases that a switch moves: of those named, or of all, the ones
// whose shards are not yet where it leads. If none is left, all of them: what remains
// is to see that the last switch was carried out.
func (c Config) subject(d Direction, owners []store.Ownership) (moving, rest []postgres.Target) {
	var named []postgres.Target
	for _, t := range c.Databases {
		if len(c.Only) == 0 || slices.Contains(c.Only, t.Name) {
			named = append(named, t)
		}
	}
	for _, t := range named {
		for _, o := range owners {
			if o.Database == t.Name && o.Owner != d.settledOn(t.Name) {
				moving = append(moving, t)
			}
		}
	}
	if len(moving) == 0 {
		moving = named
	}
	for _, t := range c.Databases {
		if !slices.Contains(moving, t) {
			rest = append(rest, t)
		}
	}
	return moving, rest
}

// connectDatabases opens a session to each database that the switch moves. The others
// are looked at where they answer: one that is down does not concern it. Who ends another's
// window does not wait for any: clients do.
func (w *window) connectDatabases(ctx context.Context, owners []store.Ownership) error {
	moving, rest := w.cfg.subject(w.command, owners)
	all := slices.Concat(moving, rest)
	conns := make([]*pgx.Conn, len(all))
	errs := make([]error, len(moving))
	var g errgroup.Group
	for i, t := range all {
		g.Go(func() (err error) {
			if w.lenient || i >= len(moving) {
				ctx, cancel := context.WithTimeout(ctx, actTimeout)
				defer cancel()
				conns[i], _ = postgres.Connect(ctx, t, w.name)
				return nil
			}
			if conns[i], err = postgres.Connect(ctx, t, w.name); err != nil {
				errs[i] = migrate.At(t.Name, err)
			}
			return nil
		})
	}
	_ = g.Wait() // what failed is in errs
	for i, t := range all {
		if conns[i] == nil {
			continue
		}
		w.databases[t.Name] = conns[i]
		if i >= len(moving) {
			w.others = append(w.others, t.Name)
		}
	}
	w.cfg.Databases = moving
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.checkMembers(ctx)
}

// checkMembers refuses a DSN behind which there is another database than the one that
// prepare made, or one without its state.
func (w *window) checkMembers(ctx context.Context) (err error) {
	if w.members, err = store.Members(ctx, w.side, w.cfg.migration()); err != nil {
		return err
	}
	if !w.lenient {
		return w.each(ctx, w.checkMember)
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	err = w.each(ctx, w.checkMember)
	for _, name := range migrate.FailedAt(err, w.cfg.databaseNames()) {
		postgres.CloseQuietly(ctx, w.databases[name])
		delete(w.databases, name)
	}
	return nil
}

func (w *window) checkMember(ctx context.Context, name string, conn *pgx.Conn) error {
	id, err := postgres.ReadIdentity(ctx, conn)
	if err != nil {
		return err
	}
	if err := store.CheckMember(w.members, name, id); err != nil {
		return err
	}
	_, err = store.LoadControl(ctx, conn, w.cfg.migration())
	if state := postgres.SQLState(err); state == "42P01" || state == "3F000" || errors.Is(err, store.ErrNotFound) {
		return migrate.Refuse("database.no_state", name, "the database behind its dsn has no state of migration "+w.cfg.migration(), "check its dsn in the spec")
	}
	return err
}

// scope are the shards that the switch moves; nil: all.
func (w *window) scope() topology.Scope {
	if len(w.cfg.Databases) == len(w.cfg.Layout.Spec.Databases) {
		return nil
	}
	scope := topology.Scope{}
	for _, name := range w.cfg.databaseNames() {
		scope = append(scope, w.cfg.Layout.Spec.Shards.ShardsOf(name)...)
	}
	return scope
}

// phaseAfter is the phase once the switch's databases have moved.
func (w *window) phaseAfter(d Direction, owners []store.Ownership) migrate.Phase {
	owners = slices.Clone(owners)
	for i, o := range owners {
		if slices.Contains(w.cfg.databaseNames(), o.Database) {
			owners[i].Owner = d.settledOn(o.Database)
		}
	}
	return phaseOf(owners)
}

// phaseOf is the phase that the owners say.
func phaseOf(owners []store.Ownership) migrate.Phase {
	onSource := 0
	for _, o := range owners {
		if o.Owner == store.OwnerSource {
			onSource++
		}
	}
	switch onSource {
	case 0:
		return migrate.CutOver
	case len(owners):
		return migrate.RolledBack
	}
	return migrate.PartlyCutOver
}

// offer adds to the failure of a switch of several databases that came from some of them
// alone how to go on without those.
func (w *window) offer(d Direction, err error) error {
	names := w.cfg.databaseNames()
	failed := migrate.FailedAt(err, names)
	if len(failed) == 0 || len(failed) == len(names) {
		return err
	}
	fine := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(failed, name) })
	way := fmt.Sprintf("go on without %s: shardctl %s --database %s", strings.Join(failed, ", "), d, strings.Join(fine, ","))
	f, is := err.(*migrate.Failure)
	var only *migrate.Failure
	if !is && len(failed) == 1 && errors.As(err, &only) && only.Object == failed[0] {
		f, is = only, true // it says all that the others would add
	}
	if !is {
		return &migrate.Failure{Code: string(d) + ".database", Object: strings.Join(failed, ", "), Message: "not all databases can be switched",
			Exit: migrate.ExitCode(err), Hint: way, Err: err}
	}
	offered := *f
	offered.Hint = strings.TrimPrefix(f.Hint+", or "+way, ", or ")
	return &offered
}
