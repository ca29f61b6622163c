package cutover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/migrate"
)

// orderVariable carries an order to a process of the test binary, which is then a switch
// and nothing else.
const orderVariable = "SHARDCTL_TEST_SWITCH"

// order is a switch in a process of its own that waits at one point until it is told to
// go on.
type order struct {
	Spec      string
	Turnstile string // its address
	Direction cutover.Direction
	Only      []string
	MaxPause  time.Duration
	Step      string // where it waits
	Done      bool   // after the step's work, not before it
	Differs   bool   // the last comparison finds a difference: the switch is undone
}

// result is how it ended.
type result struct {
	Outcome cutover.Outcome
	Exit    int
	Error   string
	Steps   []string
}

// The files of a switch's process, beyond the usual three.
const (
	saysTo    = 3 + iota // "reached", "interrupted", its result
	hearsFrom            // a line: go on
	guardIn              // to its watchdog, which lives in the test's process
	guardOut
)

// obey is the main function of a switch's process.
func obey(raw string) int {
	says, hears := os.NewFile(saysTo, "says"), bufio.NewReader(os.NewFile(hearsFrom, "hears"))
	var o order
	err := json.Unmarshal([]byte(raw), &o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return migrate.ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer context.AfterFunc(ctx, func() { fmt.Fprintln(says, "interrupted") })()
	waited := false
	cutover.OnReach(func(step string, done bool) {
		if step != o.Step || done != o.Done || waited {
			return
		}
		waited = true
		fmt.Fprintln(says, "reached")
		_, _ = hears.ReadString('\n')
	})
	report, err := o.run(ctx)
	r := result{Outcome: report.Outcome, Exit: migrate.ExitCode(err), Steps: names(report.Steps)}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(says).Encode(r)
	return r.Exit
}

func (o order) run(ctx context.Context) (cutover.Report, error) {
	spec, err := migrate.Decode("test.yaml", []byte(o.Spec), os.LookupEnv)
	if err != nil {
		return cutover.Report{}, err
	}
	source, err := postgres.Connect(ctx, postgres.Target{Name: "source", DSN: spec.Source.DSN}, "layout")
	if err != nil {
		return cutover.Report{}, err
	}
	l, err := layout.Load(ctx, source, spec)
	postgres.CloseQuietly(ctx, source)
	if err != nil {
		return cutover.Report{}, err
	}
	v := &verdict{}
	if o.Differs {
		v.exact = func(context.Context) error { return errors.New("a row differs") }
	}
	return o.command(ctx, l, v, startGuard)
}

// command is what cutover and rollback do, in whatever process.
func (o order) command(ctx context.Context, l *layout.Layout, v *verdict, guard func(context.Context, cutover.Watch) (cutover.Watchdog, error)) (cutover.Report, error) {
	var appliers []*auditlog.Applier
	cfg := configOf(l, v, func(a *auditlog.Applier) { appliers = append(appliers, a) })
	defer func() {
		for _, a := range appliers {
			a.Close(context.WithoutCancel(ctx))
		}
	}()
	cfg.Only, cfg.MaxPause, cfg.Watchdog = o.Only, o.MaxPause, guard
	router := o.router(l.Spec)
	defer router.Close()
	cfg.Routers = []topology.Router{router}
	lease, err := store.Acquire(ctx, cfg.Source, l.Spec.Migration, store.Operator)
	if err != nil {
		return cutover.Report{Outcome: cutover.Refused}, err
	}
	defer lease.Release(ctx)
	held, cancel := lease.Context(ctx)
	defer cancel()
	if o.Direction == cutover.Back {
		return cutover.Rollback(held, cfg)
	}
	return cutover.Cutover(held, cfg)
}

func (o order) router(spec *migrate.Spec) *turned {
	return &turned{Router: file.New(spec, spec.Topology[0]), addr: o.Turnstile}
}

// startGuard asks the test's process for a watchdog.
func startGuard(ctx context.Context, w cutover.Watch) (cutover.Watchdog, error) {
	in := os.NewFile(guardIn, "watchdog in")
	if err := json.NewEncoder(in).Encode(w); err != nil {
		return nil, err
	}
	g, err := cutover.NewGuarded(ctx, w, in, os.NewFile(guardOut, "watchdog out"))
	if err != nil {
		return nil, err // not a nil of its type
	}
	return g, nil
}
