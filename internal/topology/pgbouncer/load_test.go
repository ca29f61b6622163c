package pgbouncer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// testFlipsUnderLoad flips to and fro while clients work, half of which connect anew for
// each transaction. None may fail, and none may wait as for a login that failed.
func testFlipsUnderLoad(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"bare": "", "by entry": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dbs, 2, 1, lines(2)+extra)
			r := w.router()
			var stop atomic.Bool
			var g errgroup.Group
			var served, longest atomic.Int64
			for n := range 8 {
				g.Go(func() error { return w.client(n, &stop, &served, &longest) })
			}
			var pauses []time.Duration
			for epoch := range int64(6) {
				before := served.Load()
				pgtest.Eventually(t, 20*time.Second, func() bool { return served.Load() > before+50 })
				doc := w.document(epoch+1, []string{"", "db0 db1"}[epoch%2])
				ctx := within(t, 5*time.Second)
				began := time.Now()
				if err := errors.Join(r.Pause(ctx, nil), r.Commit(ctx, doc), r.ReadBack(ctx, doc), r.Resume(ctx)); err != nil {
					t.Error(err)
				}
				pauses = append(pauses, time.Since(began))
			}
			stop.Store(true)
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
			slices.Sort(pauses)
			t.Logf("%d transactions, pauses %v, the longest a client saw %s", served.Load(), pauses, time.Duration(longest.Load()))
			if longest.Load() > int64(5*time.Second) {
				t.Error("a client waited for server_login_retry")
			}
			w.wantServed()
		})
	}
}

// client works until it is told to stop; odd ones connect anew for each transaction.
func (w *world) client(n int, stop *atomic.Bool, served, longest *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cfg, err := pgx.ParseConfig(w.poolers[0].DSN(fmt.Sprintf("app_%03d", n/2%2)))
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(ctx)
		}
	}()
	for !stop.Load() {
		began := time.Now()
		if conn == nil {
			if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
				return err
			}
		}
		for _, sql := range []string{"BEGIN", "SELECT 1", "COMMIT"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if n%2 == 1 {
			if err := conn.Close(ctx); err != nil {
				return err
			}
			conn = nil
		}
		served.Add(1)
		for took := int64(time.Since(began)); ; {
			old := longest.Load()
			if took <= old || longest.CompareAndSwap(old, took) {
				break
			}
		}
	}
	return nil
}
