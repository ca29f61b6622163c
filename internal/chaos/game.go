package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
)

// game is one seed under way.
type game struct {
	*site
	plan    plan
	random  *rand.Rand
	record  *record
	crowd   *crowd
	look    *looker
	catchup *runner
	pair    *pair   // the source and its standby, where it is failed over
	left    []fault // that are to come
}

// act is one stage under way.
type act struct {
	name  stage
	main  *runner // what the stage waits for; in served: catchup
	tired func() bool
}

// errWrong says that the comparison found something; the record has it.
var errWrong = errors.New("rows are not as acknowledged")

// playSeed plays one seed in the world and compares; what the clients were told comes back.
func playSeed(ctx context.Context, w *world, p plan, rec *record) (book *ledger, err error) {
	rec.say("seed %d: %s", p.seed, p)
	var twins *pair
	if p.failover {
		if w, twins, err = w.withPair(ctx); err != nil {
			return newLedger(), err
		}
		defer func() { err = errors.Join(err, twins.close()) }()
	}
	s, err := newSite(ctx, w, p)
	if err != nil {
		return newLedger(), err
	}
	g := &game{site: s, plan: p, random: rand.New(rand.NewPCG(p.seed, 42)), record: rec, look: newLooker(s), pair: twins, left: slices.Clone(p.faults)}
	defer func() {
		if g.catchup != nil {
			g.catchup.end()
		}
		if g.crowd != nil && g.crowd.stop != nil {
			g.crowd.end()
		}
		g.look.close()
		if err != nil {
			g.keepLogs()
		}
		err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}()
	err = on(ctx, s.dsn(s.source), func(conn *pgx.Conn) (err error) {
		g.crowd, err = newCrowd(ctx, conn, p.seed, s.entry)
		return err
	})
	if err != nil {
		return newLedger(), err
	}
	g.crowd.begin(ctx)
	if p.failover {
		err = g.failOver(ctx)
	} else {
		err = g.play(ctx)
	}
	return g.crowd.book, err
}

// play goes through the phases, and compares at the end.
func (g *game) play(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil {
		return err
	}
	serving := g.databaseRows
	steps := []func() error{
		func() error { return g.stage(ctx, copying, "backfill") },
		func() error { return g.stage(ctx, checking, "verify") },
		func() error { return g.turn(ctx, over, "cutover") },
		func() error { return g.serve(ctx) },
	}
	if g.plan.back {
		steps = append(steps, func() error { return g.turn(ctx, back, "rollback") })
		serving = g.sourceRows
	}
	if g.plan.again {
		steps = append(steps,
			func() error { return g.run(ctx, "verify") },
			func() error { return g.turn(ctx, again, "cutover") })
		serving = g.databaseRows
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := g.writes(ctx, stageWrites); err != nil {
		return err
	}
	if err := g.writes(ctx, leastWrites-g.crowd.book.total()); err != nil {
		return err
	}
	return g.compare(ctx, serving)
}

// prepare goes as far as installed capture, and leaves catchup running.
func (g *game) prepare(ctx context.Context) error {
	if g.plan.has(hostile) {
		if err := g.beHostile(ctx); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"prepare"}, {"topology", "push", "--yes"}, {"install"}} {
		if err := g.run(ctx, args...); err != nil {
			return err
		}
	}
	g.catchup = g.begin(ctx, "catchup")
	return nil
}

// stage runs a command to its end, and hits it meanwhile.
func (g *game) stage(ctx context.Context, name stage, args ...string) error {
	g.record.say(" %s", name)
	r := g.begin(ctx, args...)
	defer r.end()
	start := time.Now()
	if err := g.strikes(ctx, &act{name: name, main: r}); err != nil {
		return err
	}
	err := r.wait()
	g.record.say("  %s took %.1f s: exit %s", args[0], time.Since(start).Seconds(), r.history())
	return err
}

// turn is a cutover or a rollback.
func (g *game) turn(ctx context.Context, name stage, command string) error {
	g.crowd.apart.Store(true)
	if g.plan.partly {
		if err := g.stage(ctx, name, command, "--yes", "--database", g.someBase().name); err != nil {
			return err
		}
		if command == "cutover" { // the rest has to be verified as it is now
			if err := g.run(ctx, "verify"); err != nil {
				return err
			}
		}
	}
	if err := g.stage(ctx, name, command, "--yes"); err != nil {
		return err
	}
	if command == "rollback" {
		g.crowd.apart.Store(false)
	}
	return nil
}

// serve lets the databases serve, while catchup follows in reverse.
func (g *game) serve(ctx context.Context) error {
	g.record.say(" %s", served)
	if err := g.strikes(ctx, &act{name: served, main: g.catchup}); err != nil {
		return err
	}
	return g.writes(ctx, stageWrites)
}

// patience bounds how long a fault waits for its moment.
const patience = 15 * time.Second

// strikes plays the faults of a stage, and those of earlier ones that hit nothing.
func (g *game) strikes(ctx context.Context, a *act) error {
	var later []fault
	for _, f := range g.left {
		if f.stage != a.name {
			later = append(later, f)
			continue
		}
		start := time.Now()
		a.tired = func() bool { return time.Since(start) > patience }
		at, err := g.strike(ctx, a, f)
		g.touch()
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if at != "" {
			g.record.hit(f, at)
			continue
		}
		if next, ok := g.nextStage(f); ok {
			later = append(later, next)
			continue
		}
		g.record.say("  %s hit nothing", f)
	}
	g.left = later
	return nil
}

// nextStage moves a fault that hit nothing to a later stage that it may fall in.
func (g *game) nextStage(f fault) (fault, bool) {
	order := []stage{copying, checking, over, served, back, again}
	for _, k := range kinds {
		if k.kind != f.kind {
			continue
		}
		for _, s := range order[slices.Index(order, f.stage)+1:] {
			if g.plan.plays(s) && slices.Contains(k.stages, s) {
				return fault{f.kind, s}, true
			}
		}
	}
	return f, false
}

// writes waits until so many more writes were acknowledged.
func (g *game) writes(ctx context.Context, n int) error {
	before, deadline := g.crowd.book.total(), time.Now().Add(stuckAfter)
	for g.crowd.book.total() < before+n {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: the application: only %d writes were acknowledged in %s", errStuck, g.crowd.book.total()-before, stuckAfter)
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// between draws a time.
func (g *game) between(least, most time.Duration) time.Duration {
	return least + time.Duration(g.random.Int64N(int64(most-least)))
}
