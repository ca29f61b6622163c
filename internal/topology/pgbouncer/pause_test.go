package pgbouncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// client is a client with a transaction open.
type client struct {
	t    *testing.T
	conn *pgx.Conn
}

// begin opens a transaction through an entry.
func (w *world) begin(pooler int, entry string) *client {
	w.t.Helper()
	cfg, err := pgx.ParseConfig(w.poolers[pooler].DSN(entry))
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	c := &client{t: w.t, conn: conn}
	c.exec("BEGIN")
	c.exec("SELECT 1")
	return c
}

func (c *client) exec(sql string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.conn.Exec(ctx, sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

func (c *client) commit() {
	c.t.Helper()
	c.exec("SELECT 1")
	c.exec("COMMIT")
}

// testPauseGivesUp has one pooler of two that cannot drain in time.
func testPauseGivesUp(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"bare": "", "by entry": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 2, lines(2)+extra)
			r := w.router()
			busy := w.begin(1, "app_001")
			began := time.Now()
			err := r.Pause(within(t, 200*time.Millisecond), nil)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
				t.Errorf("after %s: %v", took, err)
			}
			if err == nil || !strings.Contains(err.Error(), "app_001 (1)") {
				t.Errorf("the entry that is busy is not named: %v", err)
			}
			w.wantServed()
			busy.commit()
			// Nothing of the first attempt answers or ends the second one.
			if err := r.Pause(within(t, 5*time.Second), nil); err != nil {
				t.Fatal(err)
			}
			for pooler := range 2 {
				if !w.held(pooler, "app_000") || !w.held(pooler, "app_001") {
					t.Errorf("pooler %d is not held", pooler)
				}
			}
			if err := r.Resume(within(t, 5*time.Second)); err != nil {
				t.Fatal(err)
			}
			w.wantServed()
		})
	}
}

// testPauseLetsServersLogIn pauses while a server logs in that nobody waits for any more.
// Were it cut off then, the pooler would refuse the client that comes right after RESUME:
// "server login has been failing".
func testPauseLetsServersLogIn(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, "app_000 = {source} connect_query='SELECT pg_sleep(0.04)'\napp_001 = {source}\n")
	r := w.router()
	w.leadsTo(0, "app_000") // what the pooler greets clients with it has from a server
	w.admin(0, "PAUSE")     // and that it closes
	w.admin(0, "RESUME")
	ctx, leave := context.WithCancel(within(t, 5*time.Second))
	var g errgroup.Group
	g.Go(func() error {
		_, err := w.through(ctx, 0, "app_000", "SELECT 1::text")
		return err
	})
	pgtest.Eventually(t, 5*time.Second, func() bool { return w.logsIn(0, "app_000") })
	leave()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first client left: %v", err)
	}
	if err := r.Pause(within(t, 5*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.through(within(t, 5*time.Second), 0, "app_000", "SELECT 1::text"); err != nil {
		t.Fatalf("the client that comes right after RESUME: %v", err)
	}
}

func testPauseWaitsForTheTransaction(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	busy := w.begin(0, "app_000")
	var committed atomic.Bool
	var g errgroup.Group
	g.Go(func() error {
		err := r.Pause(within(t, 10*time.Second), nil)
		if !committed.Load() {
			return fmt.Errorf("held before the transaction ended: %w", err)
		}
		return err
	})
	pgtest.Eventually(t, 5*time.Second, func() bool { return w.held(0, "app_001") })
	committed.Store(true)
	busy.commit()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	w.wantServed()
}

// testResumeStrandsNoPause releases while a Pause waits: that Pause gives up at its
// deadline, and leaves nothing held.
func testResumeStrandsNoPause(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	busy := w.begin(0, "app_000")
	var g errgroup.Group
	g.Go(func() error { return r.Pause(within(t, time.Second), nil) })
	pgtest.Eventually(t, 5*time.Second, func() bool { return w.held(0, "app_001") })
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if w.held(0, "app_001") {
		t.Error("it still holds")
	}
	if err := g.Wait(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.wantServed()
	busy.commit()
}

func testOthersAreNotHeld(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2)+"other = {source}\n")
	other := w.begin(0, "other") // would keep a bare PAUSE waiting
	r := w.router()
	if err := r.Pause(within(t, 5*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	if !w.held(0, "app_000") || w.held(0, "other") {
		t.Errorf("held: ours %t, other %t", w.held(0, "app_000"), w.held(0, "other"))
	}
	other.commit()
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	w.wantServed()
}

// testPoolerThatStopsAnswering is stopped before the PAUSE comes, and goes on when the
// caller has given up: the PAUSE that it then reads must not hold anybody.
func testPoolerThatStopsAnswering(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 2, lines(2))
	r := w.router()
	pid := w.poolers[1].PID()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
	ctx := within(t, 200*time.Millisecond)
	context.AfterFunc(ctx, func() { signal(syscall.SIGCONT) })
	signal(syscall.SIGSTOP)
	if err := r.Pause(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.wantServed()
}

// testPoolerRestarted loses the console's sessions and whatever was held.
func testPoolerRestarted(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	if err := r.Pause(within(t, 5*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.poolers[0].Kill(t.Context()), w.poolers[0].Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	w.wantServed()
	if err := r.Pause(within(t, 5*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Resume(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	w.wantServed()
}
