package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/sleep"
)

// drained is how many transactions of one row each a drain has to apply.
const drained = 200_000

// updateSQL is a transaction of one row, spread over the keys, for pgbench.
const updateSQL = "\\set i random(1, %d)\nUPDATE block SET version = version + 1, updated_at = now(), properties = properties || jsonb_build_object('place', :i) WHERE id = md5('block' || :i)::uuid;\n"

// load is what pgbench did.
type load struct {
	tps  float64
	text string
}

// pgbench runs transactions of eight clients on the source: so many, or for so long.
func (w *world) pgbench(ctx context.Context, limits ...string) (l load, err error) {
	script := w.folder.File("update.pgb")
	if err := os.WriteFile(script, fmt.Appendf(nil, updateSQL, w.o.rows), 0o600); err != nil {
		return l, err
	}
	args := append([]string{"-n", "-c", "8", "-j", "2", "-f", script}, limits...)
	out, err := exec.CommandContext(ctx, "pgbench", append(args, w.source.DSN(appName))...).CombinedOutput()
	if err != nil {
		return l, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if rest, is := strings.CutPrefix(line, "tps = "); is {
			l.tps, err = strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	l.text = string(out)
	return l, err
}

// drains measures catch-up of single-row transactions into four databases beside the
// server's own replication of the same ones into one.
func (w *world) drains(ctx context.Context) error {
	if err := w.backfilled(ctx); err != nil {
		return err
	}
	to, from := w.targets[0].DSN(plainName), w.source.DSN(appName)
	say("a subscription to compare with")
	if _, err := w.subscribe(ctx); err != nil {
		return err
	}
	n := min(drained, w.o.rows)
	var ours, native samples
	for i := range w.o.rounds {
		if err := runSQL(ctx, to, "ALTER SUBSCRIPTION s DISABLE"); err != nil {
			return err
		}
		if _, err := w.pgbench(ctx, "-t", strconv.Itoa(n/8)); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		ways := []func() error{
			func() error {
				return w.costing("catchup", n/8*8, func() error {
					d, err := w.shardctl.run(ctx, "catchup", "--once")
					ours = append(ours, float64(n/8*8)/d.Seconds())
					return err
				})
			},
			func() error {
				return w.costing("subscription", n/8*8, func() error {
					d, err := w.followed(ctx)
					native = append(native, float64(n/8*8)/d.Seconds())
					return err
				})
			},
		}
		if i%2 == 1 {
			ways[0], ways[1] = ways[1], ways[0]
		}
		for _, way := range ways {
			if err := way(); err != nil {
				return err
			}
		}
		say("  catchup %.0f rows/s, subscription %.0f rows/s", ours[len(ours)-1], native[len(native)-1])
	}
	if err := compare("catchup_vs_logical", 3, "rows/s", ours, native).print(); err != nil {
		return err
	}
	return errors.Join(runSQL(ctx, to, "DROP SUBSCRIPTION s"), runSQL(ctx, from, "DROP PUBLICATION p"))
}

// costing says what CPU a way of draining took of the source and of the databases' servers.
func (w *world) costing(name string, rows int, way func() error) error {
	source, targets, err := w.used()
	if err != nil {
		return err
	}
	if err := way(); err != nil {
		return err
	}
	sourceAfter, targetsAfter, err := w.used()
	if err != nil {
		return err
	}
	perRow := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(rows) }
	say("  %s: CPU for a row: source %.1f µs, databases %.1f µs", name, perRow(sourceAfter-source), perRow(targetsAfter-targets))
	return nil
}

// used is the CPU time so far of the source and of the databases' servers.
func (w *world) used() (source, targets time.Duration, err error) {
	if source, err = localpg.ServerCPU(w.source.PID()); err != nil {
		return 0, 0, err
	}
	for _, c := range w.targets {
		d, err := localpg.ServerCPU(c.PID())
		if err != nil {
			return 0, 0, err
		}
		targets += d
	}
	return source, targets, nil
}

// subscribe makes a subscription of the whole table, waits until it is level, and gives how
// long that took.
func (w *world) subscribe(ctx context.Context) (time.Duration, error) {
	to := w.targets[0].DSN(plainName)
	if err := errors.Join(runSQL(ctx, to, plainTable, plainIndexes), runSQL(ctx, w.source.DSN(appName), "DROP PUBLICATION IF EXISTS p", "CREATE PUBLICATION p FOR TABLE block")); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := runSQL(ctx, to, "CREATE SUBSCRIPTION s CONNECTION '"+keywords(w.source.DSN(appName))+"' PUBLICATION p"); err != nil {
		return 0, err
	}
	err := until(ctx, 100*time.Millisecond, func() (bool, error) {
		left, err := value(ctx, to, "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate NOT IN ('s', 'r')")
		return left == 0, err
	})
	return time.Since(started), err
}

// keywords writes a DSN for a statement.
func keywords(dsn string) string { return strings.ReplaceAll(dsn, "'", "''") }

// followed lets the subscription go on and waits until it has applied all.
func (w *world) followed(ctx context.Context) (time.Duration, error) {
	conn, err := pgx.Connect(ctx, w.source.DSN(appName))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var end string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := runSQL(ctx, w.targets[0].DSN(plainName), "ALTER SUBSCRIPTION s ENABLE"); err != nil {
		return 0, err
	}
	err = until(ctx, 20*time.Millisecond, func() (there bool, err error) {
		const applied = "SELECT coalesce(bool_or(replay_lsn >= $1::text::pg_lsn), false) FROM pg_stat_replication WHERE application_name = 's'"
		err = conn.QueryRow(ctx, applied, end).Scan(&there)
		return there, err
	})
	return time.Since(started), err
}

// underLoad lets eight clients write as fast as the source can and measures how far the
// databases are behind: a row that is stamped ten times a second, and when it arrives.
func (w *world) underLoad(ctx context.Context) error {
	if err := w.backfilled(ctx); err != nil {
		return err
	}
	if _, err := w.shardctl.run(ctx, "catchup", "--once"); err != nil {
		return err
	}
	catchup, err := w.shardctl.start(ctx, "catchup")
	if err != nil {
		return err
	}
	const seconds = 30
	var lags samples
	watched := make(chan error, 1)
	watching, stop := context.WithCancel(ctx)
	go func() {
		var err error
		lags, err = w.stamp(watching)
		watched <- err
	}()
	l, err := w.pgbench(ctx, "-T", strconv.Itoa(seconds))
	stop()
	if err := errors.Join(err, <-watched, catchup.stop()); err != nil {
		return err
	}
	m := measure{Name: "catchup_under_load", Ours: round(lags.quantile(0.99)), Reference: 1, Ratio: round(lags.quantile(0.99)), Target: 1, Rounds: len(lags), Unit: "s of lag, p99",
		Detail: map[string]any{"p50": round(lags.median()), "max": round(lags.quantile(1)), "writes_per_s": round(l.tps), "last_third_p50": round(lags[len(lags)*2/3:].median()), "seconds": seconds}}
	return m.print()
}

// stamp writes the time into a row and waits until it is on its database, again and again.
func (w *world) stamp(ctx context.Context) (lags samples, err error) {
	source, err := pgx.Connect(ctx, w.source.DSN(appName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close(context.WithoutCancel(ctx)) }()
	conns := make([]*pgx.Conn, len(w.targets))
	for i, c := range w.targets {
		if conns[i], err = pgx.Connect(ctx, c.DSN(appName)); err != nil {
			return nil, err
		}
		defer func() { _ = conns[i].Close(context.WithoutCancel(ctx)) }()
	}
	for n := int64(1); ctx.Err() == nil; n++ {
		id := fmt.Sprintf("block%d", n) // a row of any database
		stamp := 1_000_000_000 + n
		if _, err := source.Exec(ctx, "UPDATE block SET version = $1 WHERE id = md5($2)::uuid", stamp, id); err != nil {
			break
		}
		written := time.Now()
		for there := false; !there && ctx.Err() == nil; {
			for _, conn := range conns {
				var found bool
				if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM app.block WHERE id = md5($1)::uuid AND version >= $2)", id, stamp).Scan(&found); err != nil && ctx.Err() == nil {
					return lags, err
				}
				there = there || found
			}
			_ = sleep.For(ctx, 2*time.Millisecond) // its end is looked at above
		}
		if ctx.Err() == nil {
			lags.add(time.Since(written))
		}
		_ = sleep.For(ctx, 50*time.Millisecond)
	}
	if len(lags) < 10 {
		return lags, fmt.Errorf("only %d rows were seen to arrive", len(lags))
	}
	return lags, nil
}
