package cutover

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Outcome of a switch.
type Outcome string

// The outcomes. Ambiguous: a person must look; nothing was undone.
const (
	Done      Outcome = "done"
	Nothing   Outcome = "nothing" // it was done before
	Aborted   Outcome = "aborted"
	Refused   Outcome = "refused"
	Ambiguous Outcome = "ambiguous"
)

// Step is one step of an attempt.
type Step struct {
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	MS      float64   `json:"ms"`
	Outcome string    `json:"outcome"` // "ok", "failed", "not run: needs write"
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
}

// recorder times steps, journals them and tells the observer.
type recorder struct {
	journal *store.Journal
	q       postgres.Querier
	observe func(Step)
	report  *Report
}

// step runs one step with a journal row before and after it. An error of the
// journal before the step stops it; one after it is the step's own.
func (r *recorder) step(ctx context.Context, name string, fn func(context.Context) error) error {
	if err := r.journal.Record(ctx, r.q, name, "started", nil); err != nil {
		return err
	}
	s := Step{Name: name, Started: time.Now(), Outcome: "ok"}
	err := fn(ctx)
	s.MS = float64(time.Since(s.Started).Microseconds()) / 1000
	detail := map[string]any{"ms": s.MS}
	if err != nil {
		s.Outcome, detail["error"] = "failed", err.Error()
	}
	r.report.Steps = append(r.report.Steps, s)
	if r.observe != nil {
		r.observe(s)
	}
	clean, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if jerr := r.journal.Record(clean, r.q, name, s.Outcome, detail); err == nil && jerr != nil {
		return jerr
	}
	return err
}
