package cutover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
)

// A commit whose beginning cannot be noted does not happen, and one that happened is
// not called a failure because its end could not be noted.
func TestTheJournalDoesNotDecideWhetherACommitHappened(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateSource(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	r := &recorder{journal: store.NewJournal("m", "cutover"), q: conn, report: &Report{}}
	taken := 0
	commit := func(ctx context.Context) error {
		taken++
		return conn.Close(ctx)
	}
	if err := r.decisive(t.Context(), "commit", commit); err != nil || taken != 1 {
		t.Errorf("taken %d times: %v", taken, err)
	}
	if err := r.decisive(t.Context(), "commit", commit); !errors.Is(err, errUndone) || taken != 1 {
		t.Errorf("without a journal, taken %d times: %v", taken, err)
	}
}

// A gate that gets no answer ends, and says so.
func TestAGateEnds(t *testing.T) {
	t.Parallel()
	silent := gate{limit: time.Millisecond, run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	if err := silent.take(t.Context()); err == nil || err.Error() != "no answer within 1ms: context deadline exceeded" {
		t.Errorf("got %v", err)
	}
}
