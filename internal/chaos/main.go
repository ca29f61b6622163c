package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	seeds int    // how many, from 1 on
	seed  uint64 // this one alone; 0: all
}

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 20, "play the first `N` seeds")
	flag.Uint64Var(&o.seed, "seed", 0, "play this seed alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	rec, err := run(ctx, o, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	line, jsonErr := json.Marshal(rec)
	if jsonErr != nil {
		fmt.Fprintln(os.Stderr, "chaos:", jsonErr)
		os.Exit(1)
	}
	fmt.Println(string(line))
	if err != nil || !rec.clean() {
		os.Exit(1)
	}
}

// run plays the seeds; the record is of those that were played, also with an error.
func run(ctx context.Context, o options, out io.Writer) (rec *record, err error) {
	start := time.Now()
	rec = newRecord(out)
	w, err := newWorld(ctx)
	if err != nil {
		return rec, err
	}
	defer func() {
		rec.Seconds = time.Since(start).Seconds()
		err = errors.Join(err, w.close())
	}()
	if w.disk.why != "" {
		rec.NotPossible[diskFull] = w.disk.why
		rec.say("not possible here: %s: %s", diskFull, w.disk.why)
	}
	first, n := uint64(1), o.seeds
	if o.seed != 0 {
		first, n = o.seed, 1
	}
	var plans []plan
	for seed := first; seed < first+uint64(n); seed++ {
		if err := ctx.Err(); err != nil {
			return rec, err
		}
		plans = append(plans, planOf(seed))
		rec.play(ctx, w, planOf(seed))
	}
	rec.complete(plans)
	return rec, nil
}

// play plays one seed and notes how it ended.
func (r *record) play(ctx context.Context, w *world, p plan) {
	start := time.Now()
	book, err := playSeed(ctx, w, p, r)
	writes := book.total()
	r.mu.Lock()
	r.Seeds++
	r.Acknowledged += writes
	r.InDoubt += len(book.doubts)
	if errors.Is(err, errStuck) {
		r.Stuck++
	}
	if err != nil {
		r.Failed = append(r.Failed, p.seed)
	}
	r.mu.Unlock()
	if err != nil {
		r.say("SEED=%d FAILED: %v", p.seed, err)
	}
	r.say("seed %d took %.1f s, %d writes were acknowledged", p.seed, time.Since(start).Seconds(), writes)
}

// enough is in how many plans a kind has to be, so that one that never hit is a fault of the
// run and no chance.
const enough = 3

// complete lists the kinds that never hit, of those that were in enough plans.
func (r *record) complete(plans []plan) {
	planned := map[kind]int{}
	for _, p := range plans {
		if p.failover {
			planned[failover]++
		}
		for _, f := range p.faults {
			planned[f.kind]++
		}
	}
	for _, k := range append(kindsOnly(), failover) {
		if planned[k] >= enough && r.ByKind[k] == 0 && r.NotPossible[k] == "" {
			r.Missing = append(r.Missing, k)
		}
	}
}
