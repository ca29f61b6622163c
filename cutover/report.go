package cutover

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Outcome of a switch.
type Outcome string

// The outcomes. Ambiguous: a person must look; nothing was undone.
const (
	Done      Outcome = "done"
	Nothing   Outcome = "nothing" // it was done before
	Planned   Outcome = "planned" // a dry run that nothing refused; nothing was done
	Aborted   Outcome = "aborted"
	Refused   Outcome = "refused"
	Ambiguous Outcome = "ambiguous"
)

// NeedsWrite is the outcome of a step that a dry run must not take.
const NeedsWrite = "not run: needs write"

// Step is one step of an attempt.
type Step struct {
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	MS      float64   `json:"ms"`
	Outcome string    `json:"outcome"` // "ok", "failed", NeedsWrite
	// Expected is how long it took the last time, in milliseconds, by the journal; of a dry
	// run only, and nil where it was never taken.
	Expected *float64 `json:"expected_ms,omitempty"`
}

// Pause is how long clients waited, in milliseconds; nil is not known.
type Pause struct {
	Router  *float64 `json:"router"`
	Clients *float64 `json:"clients"`
}

// Report is what an attempt did.
type Report struct {
	Outcome   Outcome  `json:"outcome"`
	Pause     Pause    `json:"pause_ms"`
	Steps     []Step   `json:"steps"`
	Databases []string `json:"databases"`
	Reason    *string  `json:"reason"`
	Next      string   `json:"next"`

	Phase migrate.Phase `json:"phase,omitempty"` // after a switch that was done
}

// recorder times steps, journals them and tells the observer.
type recorder struct {
	journal *store.Journal
	q       postgres.Querier
	observe func(Step)
	report  *Report
	about   map[string]any // of the attempt, with each beginning; nil is nothing
	lazy    bool           // rows are not waited for
}

// stepPause is the step that holds the routers.
const stepPause = "pause"

// note journals one end of a step. From the watchdog on, just before clients are held, to
// their release rows are durable with what follows, at the latest with the commit that moves
// ownership or with the release. One is waited for: that a router is held is known by the
// journal alone.
func (r *recorder) note(ctx context.Context, name, outcome string, detail any) error {
	if r.lazy && (name != stepPause || outcome != "started") {
		return r.journal.RecordLazily(ctx, r.q, name, outcome, detail)
	}
	return r.journal.Record(ctx, r.q, name, outcome, detail)
}

// step runs one step with a journal row before and after it. A step whose
// beginning cannot be journaled is not taken.
func (r *recorder) step(ctx context.Context, name string, fn func(context.Context) error) error {
	if err := r.note(ctx, name, "started", r.about); err != nil {
		return err
	}
	err, journalErr := r.take(ctx, name, fn)
	if err == nil {
		err = journalErr
	}
	return err
}

// decisive runs the step that moves ownership: what happened is what the step says,
// not what the journal could note of it. A beginning that cannot be noted is
// errUndone.
func (r *recorder) decisive(ctx context.Context, name string, fn func(context.Context) error) error {
	if err := r.note(ctx, name, "started", r.about); err != nil {
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	err, _ := r.take(ctx, name, fn)
	return err
}

// journalWait bounds a row of the journal while clients may be waiting; a session
// that does not answer in that time is closed, and the rows after it fail at once.
const journalWait = 2 * time.Second

// always runs a step of an undo, or of what follows the point of no return: it has
// to be taken even if the journal's session is gone. The report has it all the same.
func (r *recorder) always(ctx context.Context, name string, fn func(context.Context) error) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalWait)
	_ = r.note(clean, name, "started", r.about)
	cancel()
	err, _ := r.take(ctx, name, fn)
	return err
}

// reached, where a test sets it, is told of both ends of a step's work: its beginning is
// journaled, or it is done and not yet journaled.
var reached func(step string, done bool)

func reach(step string, done bool) {
	if reached != nil {
		reached(step, done)
	}
}

// take runs a step, notes it and tells the observer; the second error is the
// journal's.
func (r *recorder) take(ctx context.Context, name string, fn func(context.Context) error) (err, journalErr error) {
	s := Step{Name: name, Started: time.Now(), Outcome: "ok"}
	reach(name, false)
	err = fn(ctx)
	reach(name, true)
	s.MS = float64(time.Since(s.Started).Microseconds()) / 1000
	detail := map[string]any{"ms": s.MS}
	if err != nil {
		s.Outcome, detail["error"] = "failed", err.Error()
	}
	r.report.Steps = append(r.report.Steps, s)
	if r.observe != nil {
		r.observe(s)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalWait)
	defer cancel()
	return err, r.note(clean, name, s.Outcome, detail)
}
