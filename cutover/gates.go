package cutover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// catchUpRounds bounds the drains before the window: if the lag does not become
// small in that many, the writers outrun the applier.
const catchUpRounds = 20

// A server that does not answer is no reason to wait for ever: nothing is held yet,
// but catchup has handed over.
const (
	gateTimeout  = time.Minute
	levelTimeout = 30 * time.Minute // for catchUpRounds drains of a backlog
)

// gate is one condition of a switch.
type gate struct {
	name  string
	run   func(context.Context) error
	dry   func(context.Context) error // what of it only reads; nil: nothing
	left  string                      // how a dry run names what dry leaves out; "" is nothing
	only  Direction                   // "" is both. A rollback must be possible at any time after a cutover
	limit time.Duration               // 0 is gateTimeout
}

// take runs the gate within its limit.
func (g gate) take(ctx context.Context) error {
	limit := cmp.Or(g.limit, gateTimeout)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := g.run(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", limit, err)
	}
	return err
}

// checks are the gates of a switch in a direction, in their order.
func (w *window) checks(d Direction) []gate {
	all := []gate{
		{name: "gate: way back", run: w.gateWayBack, dry: w.gateWayBack},
		{name: "gate: verified", run: w.gateVerified, dry: w.gateVerified, only: Forward},
		{name: "gate: copied", run: w.gateCopied, dry: w.gateCopied, only: Forward},
		{name: "gate: writable", run: w.gateWritable, dry: w.gateWritable},
		{name: "gate: fences", run: w.gateFences, dry: w.gateFences, only: Forward},
		{name: "gate: capture", run: func(ctx context.Context) error { return w.applier.Blocked(ctx, w.cfg.databaseNames(), d == Back) }},
		{name: "gate: routers", run: func(ctx context.Context) error { return w.gateRouters(ctx, d) }, dry: w.describeRouters, left: "gate: routers probed"},
		{name: "gate: reverse proven", run: func(ctx context.Context) error { return w.applier.ProveReverse(ctx, w.cfg.databaseNames()) }, only: Forward},
		{name: "gate: blockers", run: w.gateBlockers, dry: w.gateBlockers},
		{name: "gate: pools", run: w.gatePools, dry: w.gatePools},
		{name: "gate: sequence lanes", run: w.setLanes},
		{name: "gate: stray writes", run: w.settleStrays, only: Back},
		{name: "gate: level", run: func(ctx context.Context) error { return w.gateLevel(ctx, d) }, limit: levelTimeout},
	}
	return slices.DeleteFunc(all, func(g gate) bool { return g.only != "" && g.only != d })
}

// gates refuses a switch that could not be finished in its budget, before
// anything waits. Each gate is a step of its own, so that the report shows figures.
func (w *window) gates(ctx context.Context, d Direction) error {
	for _, g := range w.checks(d) {
		if err := w.rec.step(ctx, g.name, g.take); err != nil {
			return err
		}
	}
	return nil
}

// settleStrays finds the writes to the source that went around its fences, and lets the
// owners' rows win over them.
func (w *window) settleStrays(ctx context.Context) error {
	err := w.unlessHeldUp(ctx, func(ctx context.Context) error { return w.applier.DrainForward(ctx, w.cfg.databaseNames()) })
	if err != nil {
		return err
	}
	return w.applier.RereadStrays(ctx, w.cfg.databaseNames())
}

func (w *window) gateVerified(ctx context.Context) error {
	return w.cfg.Verifier.Gate(ctx, w.cfg.databaseNames(), w.cfg.Layout.Spec.Cutover.VerifyMaxAge)
}

// gateWayBack refuses a rollback where what was written to a table since cannot be brought
// back. Such tables move as a whole: verification cannot tell the source's rows that are
// left behind from those that another database has yet to take.
func (w *window) gateWayBack(context.Context) error {
	stay := w.cfg.Layout.OneWay()
	switch {
	case len(stay) == 0:
		return nil
	case w.command == Back:
		return migrate.Refuse("rollback.none", stay[0].Name(), "it has no way back: the spec says rollback: none for it, or for a table that its key is found through",
			"run shardctl verify and complete; what the databases wrote since exists there alone")
	case len(w.cfg.Databases) < len(w.cfg.Layout.Spec.Databases):
		return migrate.Refuse("rollback.none", stay[0].Name(), "it has no way back (rollback: none), so databases cannot be cut over one by one",
			"run shardctl cutover without --database")
	}
	return nil
}

func (w *window) gateCopied(ctx context.Context) error {
	for _, name := range w.cfg.databaseNames() {
		if err := w.cfg.Copy.Whole(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// gateRouters asks every router whether it can be driven to where this switch
// leads, and for what forbids it.
func (w *window) gateRouters(ctx context.Context, d Direction) error {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	if err != nil {
		return err
	}
	for i, o := range owners {
		if slices.Contains(w.cfg.databaseNames(), o.Database) {
			owners[i].Owner = d.settledOn(o.Database)
		}
	}
	doc, err := topology.Build(w.cfg.Layout.Spec, owners)
	if err != nil {
		return err
	}
	return w.routers(func(i int) error {
		desc, err := w.cfg.Routers[i].Describe(ctx)
		if err != nil {
			return err
		}
		if err := refuseFindings(desc.Findings); err != nil {
			return err
		}
		probed, err := w.cfg.Routers[i].Probe(ctx, doc, w.scope())
		if err != nil {
			return err
		}
		return refuseFindings(probed)
	})
}

// gateWritable refuses a server on which the application could not write after the
// switch, or we could not now. Our sessions set default_transaction_read_only off; the
// application's do not. A source that is read-only by default was made so after the
// cutover, as one more fence; whoever put it up takes it off, and no rollback waits for that.
func (w *window) gateWritable(ctx context.Context) error {
	if w.command == Back {
		return writable(ctx, "source", w.side, false)
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error { return writable(ctx, name, conn, true) })
}

func writable(ctx context.Context, place string, q postgres.Querier, byDefault bool) error {
	const sql = `SELECT pg_is_in_recovery(), reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only'`
	var standby, readOnly bool
	if err := q.QueryRow(ctx, sql).Scan(&standby, &readOnly); err != nil {
		return fmt.Errorf("read whether %s can be written: %w", place, err)
	}
	switch {
	case standby:
		return migrate.Refuse("database.standby", place, "the server is a standby: it is read-only", "name the primary in its dsn, or promote the server")
	case readOnly && byDefault:
		return migrate.Refuse("database.read_only", place, "transactions are read-only by default (default_transaction_read_only): the application could not write",
			"take the setting off the server, the database or the role")
	}
	return nil
}

// gateFences refuses a cutover that would find a fence or a guard missing when it is too
// late: the source's have to be there and asleep, the databases' guards there.
func (w *window) gateFences(ctx context.Context) error {
	states, err := fence.SourceStates(ctx, w.side, w.cfg.Layout)
	if err != nil {
		return err
	}
	for _, name := range w.cfg.databaseNames() {
		if is := states[name]; is != fence.Disabled {
			return migrate.Refuse("fence.source", "source", fmt.Sprintf("the fence for %s is %s instead of asleep on every table and partition", name, is),
				"shardctl doctor --acknowledge-ddl adds what lacks")
		}
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		is, err := fence.ReadDatabase(ctx, conn, w.cfg.Layout, name)
		if err != nil {
			return err
		}
		if is.Guard != fence.Disabled && w.tables.guarded() {
			return migrate.Refuse("fence.guard", name, fmt.Sprintf("its placement guards are %s instead of asleep on every table and partition", is.Guard), startAnew(name))
		}
		return nil
	})
}

// gateLevel drains until a drain takes less than a quarter of the budget, and compares
// what was touched until little is left for the window: what is written while a round
// compares waits for the next one.
func (w *window) gateLevel(ctx context.Context, d Direction) error {
	limit := w.cfg.MaxPause / 4
	var took time.Duration
	for range catchUpRounds {
		start := time.Now()
		if err := w.unlessHeldUp(ctx, func(ctx context.Context) error { return w.drain(ctx, d) }); err != nil {
			return err
		}
		took = time.Since(start)
		if err := w.cfg.Verifier.Delta(ctx, w.cfg.databaseNames()); err != nil {
			return err
		}
		room, err := w.cfg.Verifier.Room(ctx, w.cfg.databaseNames())
		if err != nil || room && took <= limit {
			return err
		}
	}
	if took <= limit {
		return migrate.Refuse("cutover.lag", "verify", "more is written while the last writes are compared than can be compared in a pause", "write less, then run the command again")
	}
	return migrate.Refuse("cutover.lag", "catchup", fmt.Sprintf("the last drain took %s, more than the %s that a pause of %s allows", took.Round(time.Millisecond), limit, w.cfg.MaxPause),
		"let catchup run until the lag is small, or write less")
}

func (w *window) drain(ctx context.Context, d Direction) error {
	if d == Back {
		return w.applier.DrainReverse(ctx, w.cfg.databaseNames())
	}
	return w.applier.DrainForward(ctx, w.cfg.databaseNames())
}
