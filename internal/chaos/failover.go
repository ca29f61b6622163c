package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/localpg"
)

// pair is a source of one seed's own, with an asynchronous standby.
type pair struct {
	*node
	standby *localpg.Cluster
}

// withPair gives the world another source, for a seed that fails it over.
func (w *world) withPair(ctx context.Context) (*world, *pair, error) {
	n, err := newNode(ctx, "source")
	if err != nil {
		return nil, nil, err
	}
	standby, err := localpg.NewStandby(ctx, n.Cluster)
	if err != nil {
		return nil, nil, errors.Join(err, n.close())
	}
	other := &world{folder: w.folder, source: n, bases: w.bases, disk: w.disk}
	return other, &pair{n, standby}, nil
}

func (p *pair) close() error { return errors.Join(p.node.close(), p.standby.Close()) }

// failOver lets the standby fall behind what the databases have applied, ends the source
// and moves its address to the standby. What only the old source had is lost, and nobody
// may make up for it: catchup has to say gap, and to leave the databases as they are.
func (g *game) failOver(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil {
		return err
	}
	g.record.say(" %s", copying)
	r := g.begin(ctx, "backfill")
	defer r.end()
	a := &act{name: copying, main: r}
	if err := g.strikes(ctx, a); err != nil {
		return err
	}
	if g.plan.back || g.plan.late { // the copy is whole
		if err := r.wait(); err != nil {
			return err
		}
	}
	if err := g.writes(ctx, leastWrites-g.crowd.book.total()); err != nil {
		return err
	}
	if err := g.fallBehind(ctx); err != nil {
		return err
	}
	if g.plan.late {
		return g.failOverLate(ctx)
	}
	at, err := g.loseSource(ctx, r)
	if err != nil {
		return err
	}
	before, err := g.contents(ctx)
	if err != nil {
		return err
	}
	g.source.proxy.lead(fmt.Sprintf("127.0.0.1:%d", g.pair.standby.Port()))
	if err := g.saysGap(ctx); err != nil {
		return err
	}
	g.record.hit(fault{failover, copying}, at)
	after, err := g.contents(ctx)
	if err != nil {
		return err
	}
	return g.untouched(before, after)
}

// fallBehind cuts the standby off and waits until every database has applied something
// that it does not have.
func (g *game) fallBehind(ctx context.Context) error {
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if err := execSQL(ctx, g.pair.standby.DSN("postgres"), sql); err != nil {
			return err
		}
	}
	const connected = "SELECT count(*) FROM pg_stat_wal_receiver"
	if err := g.becomes(ctx, connected, func(n int64) bool { return n == 0 }, g.pair.standby.DSN("postgres")); err != nil {
		return err
	}
	last, err := number(ctx, g.pair.standby.DSN(g.name), "SELECT coalesce(max(tick), 0) FROM shardctl.marker")
	if err != nil {
		return err
	}
	const applied = "SELECT coalesce(max(tick), 0) FROM shardctl.position"
	for _, n := range g.bases {
		if err := g.becomes(ctx, applied, func(tick int64) bool { return tick > last }, g.dsn(n)); err != nil {
			return err
		}
	}
	return nil
}

// number reads one number.
func number(ctx context.Context, dsn, sql string) (n int64, err error) {
	err = on(ctx, dsn, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&n) })
	return n, err
}

// becomes waits until a number is as it should be.
func (g *game) becomes(ctx context.Context, sql string, right func(int64) bool, dsn string) error {
	return g.patiently(ctx, func() error {
		n, err := number(ctx, dsn, sql)
		if err == nil && !right(n) {
			err = fmt.Errorf("%s is %d", sql, n)
		}
		return err
	})
}

// loseSource ends the source, promotes the standby and waits until shardctl rests.
func (g *game) loseSource(ctx context.Context, r *runner) (at string, err error) {
	if at, err = g.promote(ctx); err != nil {
		return "", err
	}
	r.end() // a copy goes on from nothing
	g.crowd.end()
	return at, g.patiently(ctx, func() error {
		if names := g.look.open(ctx, "shardctl %", g.bases...); len(names) > 0 {
			return fmt.Errorf("without the source there is still %s", strings.Join(names, ", "))
		}
		return nil
	})
}

// promote ends the source while shardctl is at work, and promotes the standby.
func (g *game) promote(ctx context.Context) (at string, err error) {
	err = g.patiently(ctx, func() error {
		names := g.look.open(ctx, "shardctl %", g.nodes()...)
		if len(names) == 0 {
			return errors.New("shardctl is not at work")
		}
		at = strings.Join(names, ", ")
		return nil
	})
	if err != nil {
		return "", err
	}
	if err := g.source.Stop(ctx, "kill"); err != nil {
		return "", err
	}
	g.touch()
	return at, execSQL(ctx, g.pair.standby.DSN("postgres"), "SELECT pg_promote()")
}

// contents are the rows of all databases.
func (g *game) contents(ctx context.Context) (map[string]row, error) {
	rows, err := g.databaseRows(ctx)
	all := map[string]row{}
	for _, f := range rows {
		all[f.place+" "+f.id.String()] = f.row
	}
	return all, err
}

// saysGap demands the loud stop of everything that would go on.
func (g *game) saysGap(ctx context.Context) error {
	start := time.Now()
	stops := func(r binary.Result) bool { return r.Code == 4 && strings.Contains(r.Stdout, `"code":"gap"`) }
	if err := g.patiently(ctx, func() error {
		if r := g.catchup.result(); !stops(r) {
			return fmt.Errorf("catchup did not say gap: %s", r)
		}
		return nil
	}); err != nil {
		return err
	}
	g.record.say("  catchup says gap, after %s", time.Since(start).Round(time.Millisecond))
	g.catchup.hold()
	for _, c := range []struct {
		args []string
		ok   func(binary.Result) bool
	}{
		{[]string{"catchup", "--once"}, stops},
		{[]string{"status"}, func(r binary.Result) bool {
			return strings.Contains(r.Stdout, "gap") || strings.Contains(r.Stdout, "back in time")
		}},
		{[]string{"doctor"}, func(r binary.Result) bool { return r.Code == 4 }},
		{[]string{"backfill"}, func(r binary.Result) bool { return r.Code != 0 || g.plan.back }},
		{[]string{"verify"}, func(r binary.Result) bool { return r.Code != 0 }},
		{[]string{"cutover", "--yes"}, func(r binary.Result) bool { return r.Code != 0 }},
	} {
		res, err := g.once(ctx, c.args...)
		if err != nil {
			return err
		}
		if !c.ok(res) {
			return fmt.Errorf("after a failover that lost writes: %s: %s", strings.Join(c.args, " "), res)
		}
	}
	return nil
}

// untouched counts what was changed on the databases after the failover.
func (g *game) untouched(before, after map[string]row) error {
	if maps.Equal(before, after) {
		return nil
	}
	var v verdict
	for at, r := range before {
		if after[at] != r {
			v.add(&v.lost, "%s was %+v before the failover and is %+v", at, r, after[at])
		}
	}
	for at, r := range after {
		if _, ok := before[at]; !ok {
			v.add(&v.doubled, "%s was not there before the failover: %+v", at, r)
		}
	}
	g.book(v, "the databases, after the failover")
	return errWrong
}
