package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestShortForms runs suites with few rows: that they can be run, that what they compare
// arrives whole, and that each measure is one line. Their figures say nothing.
func TestShortForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		lines []string
	}{
		{[]string{"-rows", "6000", "-rounds", "1", "-only", "vs_pipes|verify|vs_logical"}, []string{"backfill_live_vs_pipes", "backfill_fast_vs_pipes", "verify_vs_digests", "verify_source_pages", "catchup_vs_logical"}},
		{[]string{"-suite", "cutover", "-rows", "30000", "-rounds", "1", "-only", "entries_16"}, []string{"cutover", "rollback", "bare"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", append([]string{"run", "."}, c.args...)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = time.Minute
		var out, failed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &failed
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", c.args, err, out.String(), failed.String())
		}
		names := lines(t, &out)
		if len(names) != len(c.lines) {
			t.Fatalf("%v: printed %v, want %v", c.args, names, c.lines)
		}
		for i := range names {
			if names[i] != c.lines[i] {
				t.Errorf("%v: line %d is %s, want %s", c.args, i, names[i], c.lines[i])
			}
		}
	}
}

// lines gives the names of the measures; each must be right for what it compares.
func lines(t *testing.T, out *bytes.Buffer) (names []string) {
	t.Helper()
	for s := bufio.NewScanner(out); s.Scan(); {
		var l struct {
			Name             string
			Ours, Reference  float64
			N, Failed, Lost  int
			FailedRequests   int `json:"failed_requests"`
			Requests, Rounds int
		}
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		if l.FailedRequests != 0 || l.Lost != 0 || l.Rounds == 0 && l.N == 0 || l.Rounds > 0 && (l.Ours <= 0 || l.Reference <= 0) {
			t.Errorf("%s", s.Text())
		}
		names = append(names, l.Name)
	}
	return names
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var s samples
	for i := range 100 {
		s = append(s, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := s.quantile(q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := (samples{3, 1, 2}).median(); got != 2 {
		t.Errorf("median %g", got)
	}
}
