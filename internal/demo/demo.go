package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Options of a demo.
type Options struct {
	Rows     int    // loaded before the migration; defaults to 200 000
	Shards   int    // logical shards, at least 4; defaults to 8
	Keep     bool   // leave servers and files when it is over
	Sabotage string // Lose, Double, Misplace, or nothing
	Image    string // of servers in containers; default: server programs where there are any, else DefaultImage
	// Run executes one command line of shardctl, as an operator would.
	Run func(ctx context.Context, args ...string) error
	// Phase is told what begins; nil is nobody.
	Phase func(name string)
}

// ErrLeft says that something of a demo could not be removed.
var ErrLeft = errors.New("not all of the demo could be removed")

// Result of a demo; the keys are part of the contract.
type Result struct {
	Rows           int                `json:"rows"`
	Acknowledged   int64              `json:"acknowledged"`
	Lost           int                `json:"lost"`
	Doubled        int                `json:"doubled"`
	Misplaced      int                `json:"misplaced"`
	FailedRequests int64              `json:"failed_requests"`
	Cutovers       int                `json:"cutovers"`
	Rollbacks      int                `json:"rollbacks"`
	PausesMS       []float64          `json:"pauses_ms"`
	Rates          map[string]float64 `json:"rates"`
	Seconds        float64            `json:"seconds"`
	Examples       []string           `json:"examples,omitempty"`
	Kept           *Place             `json:"kept,omitempty"` // with Options.Keep
}

// Clean reports whether nothing was lost, doubled, misplaced or refused.
func (r Result) Clean() bool {
	return r.Lost == 0 && r.Doubled == 0 && r.Misplaced == 0 && r.FailedRequests == 0
}

// journey is one run of the demo.
type journey struct {
	*world
	o         Options
	spec      string
	book      *ledger
	workspace uuid.UUID // any of those that were loaded
	pauses    *pauses
	result    Result
}

// Run runs the journey. Everything it started is gone when it returns, also when ctx
// ends it; an error that is ErrLeft says what could not be removed. With Options.Keep
// all of it stays if the journey reached its end, whatever the comparison found.
func Run(ctx context.Context, o Options) (result Result, err error) {
	start := time.Now()
	if o.Shards < 2*databases {
		return result, fmt.Errorf("demo: %d shards, at least %d are needed", o.Shards, 2*databases)
	}
	phase := o.Phase
	if phase == nil {
		phase = func(string) {}
	}
	o.Phase = phase
	phase("starting servers")
	w, err := build(ctx, o)
	if err != nil {
		return result, err
	}
	defer func() {
		if result.Kept == nil {
			err = errors.Join(err, w.close())
		}
	}()
	j := &journey{world: w, o: o, book: newLedger(), pauses: &pauses{}, result: Result{Rows: o.Rows, Rates: map[string]float64{}, PausesMS: []float64{}}}
	if j.spec, err = w.specFile(); err != nil {
		return result, err
	}
	if err := j.underLoad(ctx); err != nil {
		return j.result, err
	}
	if err := j.judge(ctx); err != nil {
		return j.result, err
	}
	j.result.Seconds = time.Since(start).Seconds()
	if o.Keep {
		if j.result.Kept, err = j.keep(ctx); err != nil {
			j.result.Kept = nil
		}
	}
	return j.result, err
}

// underLoad loads the source, starts the writer and the catch-up, and runs the
// phases.
func (j *journey) underLoad(ctx context.Context) error {
	j.o.Phase("loading rows")
	workspaces, err := j.loadRows(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, written := make(chan struct{}), make(chan error, 1)
	writeStart := time.Now()
	go func() {
		err := j.write(ctx, j.book, j.pauses, workspaces, stop)
		if err != nil {
			cancel() // a writer that cannot go on ends the demo
		}
		written <- err
	}()
	err = j.phases(ctx)
	close(stop)
	err = errors.Join(err, <-written)
	acknowledged, _ := j.book.totals()
	j.result.Rates["writes_per_s"] = float64(acknowledged) / time.Since(writeStart).Seconds()
	return err
}

func (j *journey) loadRows(ctx context.Context) ([]uuid.UUID, error) {
	conn, err := session(ctx, j.source.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if err := load(ctx, conn, j.o.Rows, j.book); err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for id, r := range j.book.rows {
		if r.table == "workspace" {
			ids = append(ids, id)
		}
		if len(ids) == clients*workspacesEach {
			break
		}
	}
	j.workspace = ids[0]
	return ids, nil
}

// run executes one command with the demo's spec.
func (j *journey) run(ctx context.Context, args ...string) error {
	j.o.Phase(args[0])
	if err := j.o.Run(ctx, append(args, "--file", j.spec)...); err != nil {
		return fmt.Errorf("shardctl %s: %w", args[0], err)
	}
	return nil
}

// phases is the operator's part: every phase, the cutover, back, and again.
func (j *journey) phases(ctx context.Context) error {
	for _, args := range [][]string{{"plan"}, {"prepare"}, {"topology", "push", "--yes"}, {"install"}} {
		if err := j.run(ctx, args...); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	caught := make(chan error, 1)
	live, end := context.WithCancel(ctx)
	go func() {
		err := j.o.Run(live, "catchup", "--no-progress", "--file", j.spec)
		if live.Err() == nil {
			cancel() // a catch-up that ends by itself ends the demo
		}
		caught <- err
	}()
	err := j.afterInstall(ctx)
	ended := ctx.Err() != nil && live.Err() != nil
	end()
	if catchupErr := <-caught; ended {
		err = errors.Join(err, catchupErr)
	}
	cancel()
	return err
}

func (j *journey) afterInstall(ctx context.Context) error {
	start := time.Now()
	if err := j.run(ctx, "backfill"); err != nil {
		return err
	}
	j.result.Rates["backfill_rows_per_s"] = float64(j.o.Rows) / time.Since(start).Seconds()
	start = time.Now()
	if err := j.run(ctx, "verify"); err != nil {
		return err
	}
	j.result.Rates["verify_rows_per_s"] = float64(j.o.Rows) / time.Since(start).Seconds()
	for _, turn := range []string{"cutover", "rollback", "cutover"} {
		if turn == "cutover" && j.result.Rollbacks > 0 {
			if err := j.run(ctx, "verify"); err != nil {
				return err
			}
		}
		from := time.Now()
		if err := j.run(ctx, turn, "--yes"); err != nil {
			return err
		}
		if err := j.settle(ctx); err != nil {
			return err
		}
		j.result.PausesMS = append(j.result.PausesMS, float64(j.pauses.longest(from, time.Now()).Microseconds())/1000)
		if turn == "cutover" {
			j.result.Cutovers++
		} else {
			j.result.Rollbacks++
		}
	}
	return nil
}

// What the writer does on each side before the next turn.
const (
	settleTime  = time.Second
	settleMost  = 20 * time.Second // on a machine too slow for the writes
	settleWrite = 1500
)

// settle lets the writer work on the new side for a moment.
func (j *journey) settle(ctx context.Context) error {
	before, _ := j.book.totals()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, _ := j.book.totals()
		took := time.Since(start)
		if took > settleMost || took > settleTime && now-before >= settleWrite {
			return nil
		}
	}
}

// judge damages a row if it is asked to, and compares.
func (j *journey) judge(ctx context.Context) error {
	if j.o.Sabotage != "" {
		if err := j.damage(ctx, j.o.Sabotage); err != nil {
			return err
		}
	}
	j.o.Phase("comparing")
	v, err := j.compare(ctx, j.book)
	if err != nil {
		return err
	}
	j.result.Lost, j.result.Doubled, j.result.Misplaced = v.lost, v.doubled, v.misplaced
	j.result.Examples = append(v.examples, j.pauses.errors...)
	j.result.Acknowledged, j.result.FailedRequests = j.book.totals()
	return nil
}
