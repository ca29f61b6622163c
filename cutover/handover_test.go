package cutover_test

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/store"
)

// TestACatchupThatEndsInTheMiddleOfAHandover frees its lease and answers nobody: the
// switch goes on without it.
func TestACatchupThatEndsInTheMiddleOfAHandover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lease, err := store.Acquire(t.Context(), r.cfg.Source, "m", store.Applier)
	must(t, err)
	conn, ended := r.connect("source", r.source), make(chan error, 1)
	go func() {
		for {
			asked, err := store.HandoverRequested(context.Background(), conn, "m")
			if asked || err != nil {
				lease.Release(context.Background())
				ended <- err
				return
			}
		}
	}()
	report, err := r.forth(r.cfg)
	if err != nil || report.Outcome != cutover.Done {
		t.Errorf("%+v %v", report, err)
	}
	must(t, <-ended)
}
