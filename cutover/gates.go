package cutover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	limit time.Duration // 0 is gateTimeout
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

// gates refuses a switch that could not be finished in its budget, before
// anything waits. Each gate is a step of its own, so that the report shows figures.
func (w *window) gates(ctx context.Context, d Direction) error {
	checks := []gate{
		{name: "gate: verified", run: w.gateVerified},
		{name: "gate: copied", run: w.gateCopied},
		{name: "gate: capture", run: func(ctx context.Context) error {
			return w.cfg.applierBlocked(ctx, w.applier, d == Back)
		}},
		{name: "gate: routers", run: func(ctx context.Context) error { return w.gateRouters(ctx, d) }},
		{name: "gate: reverse proven", run: func(ctx context.Context) error { return w.applier.ProveReverse(ctx, w.cfg.databaseNames()) }},
		{name: "gate: sequence lanes", run: w.setLanes},
		{name: "gate: stray writes", run: w.settleStrays},
		{name: "gate: blockers", run: func(ctx context.Context) error { return w.gateBlockers(ctx, d) }},
		{name: "gate: level", run: func(ctx context.Context) error { return w.gateLevel(ctx, d) }, limit: levelTimeout},
	}
	for _, c := range checks {
		if d == Back && backSkips[c.name] || d == Forward && forwardSkips[c.name] {
			continue
		}
		if err := w.rec.step(ctx, c.name, c.take); err != nil {
			return err
		}
	}
	return nil
}

// backSkips: a rollback must be possible at any time after a cutover, also when no
// pass of verify is fresh; the copy was judged on the way forward.
var backSkips = map[string]bool{"gate: verified": true, "gate: copied": true, "gate: reverse proven": true}

// forwardSkips: the source owns the shards, so that no write to them is stray.
var forwardSkips = map[string]bool{"gate: stray writes": true}

// settleStrays finds the writes to the source that went around its fences, and lets the
// owners' rows win over them.
func (w *window) settleStrays(ctx context.Context) error {
	if err := w.applier.DrainForward(ctx, w.cfg.databaseNames()); err != nil {
		return err
	}
	return w.applier.RereadStrays(ctx, w.cfg.databaseNames())
}

func (c Config) applierBlocked(ctx context.Context, a Applier, reverse bool) error {
	return a.Blocked(ctx, c.databaseNames(), reverse)
}

func (w *window) gateVerified(ctx context.Context) error {
	return w.cfg.Verifier.Gate(ctx, w.cfg.databaseNames(), w.cfg.Layout.Spec.Cutover.VerifyMaxAge)
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
		probed, err := w.cfg.Routers[i].Probe(ctx, doc, w.scope())
		if err != nil {
			return err
		}
		return refuseFindings(append(desc.Findings, probed...))
	})
}

// gateBlockers names transactions that hold a lock in our way for longer than the
// budget, and prepared ones. A long reader does not hold up the lock and is let be.
// On the way back the databases are locked, too.
func (w *window) gateBlockers(ctx context.Context, d Direction) error {
	err := w.unblocked(ctx, "source", w.side, w.tables.source())
	if d == Forward || err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		return w.unblocked(ctx, name, conn, w.tables.database(name))
	})
}

func (w *window) unblocked(ctx context.Context, place string, q postgres.Querier, tables []string) error {
	found, err := blockers(ctx, q, tables, w.cfg.MaxPause/4)
	if err != nil || len(found) == 0 {
		return err
	}
	return migrate.Refuse(string(w.command)+".blocked", place, "open transactions hold locks on migrated tables: "+strings.Join(found, "; "),
		"wait for them or end them, then run the command again")
}

func blockers(ctx context.Context, q postgres.Querier, tables []string, older time.Duration) ([]string, error) {
	const sql = `SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'prepared transaction ' || coalesce(p.gid, '?') ELSE
	  format('pid %s (%s, open for %s): %s', a.pid, coalesce(nullif(a.application_name, ''), a.usename), date_trunc('milliseconds', clock_timestamp() - a.xact_start), left(a.query, 80)) END
	FROM pg_locks l
	LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND l.virtualtransaction = '-1/' || p.transaction
	WHERE l.granted AND l.relation = ANY (SELECT to_regclass(t) FROM unnest($1::text[]) t) AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	  AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') AND l.pid IS DISTINCT FROM pg_backend_pid()
	  AND (l.pid IS NULL OR clock_timestamp() - a.xact_start > $2::interval) AND coalesce(a.backend_type, '') <> 'autovacuum worker'`
	rows, err := q.Query(ctx, sql, tables, older)
	if err != nil {
		return nil, fmt.Errorf("look for blocking transactions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// gateLevel drains until a drain takes less than a quarter of the budget, and
// compares what was touched, so that little is left for the window.
func (w *window) gateLevel(ctx context.Context, d Direction) error {
	limit := w.cfg.MaxPause / 4
	var took time.Duration
	for range catchUpRounds {
		start := time.Now()
		if err := w.drain(ctx, d); err != nil {
			return err
		}
		took = time.Since(start)
		err := w.each(ctx, func(ctx context.Context, name string, _ *pgx.Conn) error { return w.cfg.Verifier.Delta(ctx, name) })
		if err != nil {
			return err
		}
		if took <= limit {
			return nil
		}
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
