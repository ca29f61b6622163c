package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// record is what all seeds did.
type record struct {
	out io.Writer // progress, for a person

	mu           sync.Mutex
	Seeds        int          `json:"seeds"`
	Faults       int          `json:"faults"`
	ByKind       map[kind]int `json:"by_kind"`
	Acknowledged int          `json:"acknowledged"`
	InDoubt      int          `json:"in_doubt"` // writes whose COMMIT was not answered
	Lost         int          `json:"lost"`
	Doubled      int          `json:"doubled"`
	Misplaced    int          `json:"misplaced"`
	Stuck        int          `json:"stuck"`
	// NotPossible are kinds that this machine cannot play, with the reason.
	NotPossible map[kind]string `json:"not_possible,omitempty"`
	// Missing are kinds that never hit, though there were seeds enough.
	Missing []kind   `json:"missing,omitempty"`
	Failed  []uint64 `json:"failed_seeds,omitempty"`
	Seconds float64  `json:"seconds"`
}

func newRecord(out io.Writer) *record {
	return &record{out: out, ByKind: map[kind]int{}, NotPossible: map[kind]string{}}
}

func (r *record) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}

// hit counts a fault, with what was at work when it hit.
func (r *record) hit(f fault, at string) {
	r.say("  hit: %s: %s", f, at)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults++
	r.ByKind[f.kind]++
}

// add counts what a comparison found.
func (r *record) add(v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lost += v.lost
	r.Doubled += v.doubled
	r.Misplaced += v.misplaced
}

// clean reports whether nothing was wrong.
func (r *record) clean() bool {
	return r.Lost+r.Doubled+r.Misplaced+r.Stuck+len(r.Missing)+len(r.Failed) == 0
}

// impossible says why this machine cannot play a kind; "" if it can.
func (r *record) impossible(k kind) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.NotPossible[k]
}
