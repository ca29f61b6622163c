package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// subscriber is an application's library: it listens, and reads the document when told.
type subscriber struct {
	conn *pgx.Conn
	told chan time.Time // when the epoch awaited was told of, then when its document was read
}

// subscribe opens sessions that listen.
func subscribe(t testing.TB, db *pgtest.Database, count int) []*subscriber {
	t.Helper()
	all := make([]*subscriber, count)
	for i := range all {
		all[i] = &subscriber{conn: db.Connect(t), told: make(chan time.Time, 2)}
		if _, err := all[i].conn.Exec(t.Context(), "LISTEN shardctl_topology"); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// await waits for an epoch and reads its document.
func (s *subscriber) await(ctx context.Context, epoch int64) error {
	n, err := s.conn.WaitForNotification(ctx)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`{"migration":"blocks","epoch":%d}`, epoch); n.Payload != want {
		return fmt.Errorf("told %s, want %s", n.Payload, want)
	}
	s.told <- time.Now()
	var seen int64
	if err := s.conn.QueryRow(ctx, "SELECT (document->>'epoch')::int8 FROM "+table+" WHERE migration = 'blocks'").Scan(&seen); err != nil {
		return err
	}
	if seen != epoch {
		return fmt.Errorf("told of epoch %d, read %d", epoch, seen)
	}
	s.told <- time.Now()
	return nil
}

// spread is how long after the beginning of Commit the subscribers knew.
type spread struct{ told, read []time.Duration }

// publish commits epochs and measures when each subscriber knew of each.
func publish(t testing.TB, subscribers, epochs int) (s spread) {
	t.Helper()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	if err := r.Commit(t.Context(), document(t, 1, "source")); err != nil {
		t.Fatal(err)
	}
	all := subscribe(t, db, subscribers)
	for epoch := int64(2); epoch < int64(epochs)+2; epoch++ {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var wg sync.WaitGroup
		errs := make([]error, len(all))
		for i, one := range all {
			wg.Go(func() { errs[i] = one.await(ctx, epoch) })
		}
		start := time.Now()
		err := r.Commit(ctx, document(t, epoch, "db0"))
		wg.Wait()
		cancel()
		for _, e := range append(errs, err) {
			if e != nil {
				t.Fatal(e)
			}
		}
		for _, one := range all {
			s.told, s.read = append(s.told, (<-one.told).Sub(start)), append(s.read, (<-one.told).Sub(start))
		}
	}
	return s
}

// percentile of what was measured, in milliseconds.
func percentile(all []time.Duration, part float64) float64 {
	slices.Sort(all)
	return float64(all[int(part*float64(len(all)-1))].Microseconds()) / 1000
}

// bound is on how long subscribers go without the new document.
const bound = 1000.0 // ms, p99

func TestSubscribersKnowWithinASecond(t *testing.T) {
	s := publish(t, 40, 5)
	if p99 := percentile(s.read, 0.99); p99 >= bound {
		t.Errorf("p99 of 40 subscribers: %.0f ms", p99)
	}
}

// BenchmarkSubscribers is the time from the beginning of Commit until 200 subscribers
// were told, and had read the document.
func BenchmarkSubscribers(b *testing.B) {
	const subscribers, epochs = 200, 20
	for b.Loop() {
		s := publish(b, subscribers, epochs)
		line, err := json.Marshal(map[string]any{
			"benchmark": "topology.postgres", "subscribers": subscribers, "epochs": epochs,
			"told_p50_ms": percentile(s.told, 0.5), "told_p99_ms": percentile(s.told, 0.99),
			"read_p50_ms": percentile(s.read, 0.5), "read_p99_ms": percentile(s.read, 0.99),
		})
		if err != nil {
			b.Fatal(err)
		}
		fmt.Println(string(line))
		b.ReportMetric(percentile(s.read, 0.99), "p99-ms")
		if percentile(s.read, 0.99) >= bound {
			b.Errorf("p99 is not below %.0f ms", bound)
		}
	}
}

func TestWhatDoesNotChangeIsNotTold(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	one := subscribe(t, db, 1)[0]
	for _, epoch := range []int64{1, 1, 2} {
		if err := r.Commit(t.Context(), document(t, epoch, "db0")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Probe(t.Context(), document(t, 3, "source"), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, epoch := range []int64{1, 2, 0} {
		n, err := one.conn.WaitForNotification(ctx)
		if want := fmt.Sprintf(`{"migration":"blocks","epoch":%d}`, epoch); err != nil || n.Payload != want {
			t.Fatalf("told %+v, %v; want %s", n, err, want)
		}
	}
}
