package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
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

// written notes which of a journal's rows are not waited for.
type written struct {
	postgres.Querier
	lazy []bool
}

func (w *written) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	w.lazy = append(w.lazy, strings.Contains(sql, "synchronous_commit"))
	return pgconn.CommandTag{}, nil
}

func TestTheJournalWaitsForNothingButAHold(t *testing.T) {
	t.Parallel()
	q := &written{}
	r := &recorder{journal: store.NewJournal("m", "cutover"), q: q, report: &Report{}}
	for _, c := range []struct {
		step string
		lazy bool // from before the step on
		want []bool
	}{
		{"pre-lock", false, []bool{false, false}},
		{"watchdog", true, []bool{true, true}},
		{stepPause, true, []bool{false, true}}, // known by the journal alone
		{"drain", true, []bool{true, true}},
		{"settle", false, []bool{false, false}},
	} {
		q.lazy, r.lazy = nil, c.lazy
		if err := r.step(t.Context(), c.step, func(context.Context) error { return nil }); err != nil || !slices.Equal(q.lazy, c.want) {
			t.Errorf("%s: not waited for are %v, want %v: %v", c.step, q.lazy, c.want, err)
		}
	}
}
