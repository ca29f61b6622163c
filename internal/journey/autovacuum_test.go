package journey

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// crawl makes autovacuum begin at any dead row and then take a tenth of a second a page.
const crawl = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0"

// TestAutovacuumIsNoObstacle installs, cuts over and rolls back while autovacuum is at work
// on every migrated table: it holds a lock that a short wait never gets past.
func TestAutovacuumIsNoObstacle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{
		migration: "vacuumed", home: []int{0, 1}, schema: "shard_%03d", storeAs: true, blocks: 9_000, writers: 2, pace: 40 * time.Millisecond,
		settings: []string{"autovacuum_naptime=1s", "autovacuum_max_workers=8"},
	})
	for _, table := range []string{"block", "comment", "plan"} {
		w.exec(w.sourceDSN(), fmt.Sprintf("ALTER TABLE %s SET (%s)", table, crawl))
	}
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c}
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	j.vacuumed(w.sourceDSN(), []string{"public.block", "public.comment", "public.plan"}, func() { w.must(t, "install") })
	j.copyRows()
	c.keepShards()
	j.vacuumed(w.sourceDSN(), []string{"public.block", "public.comment"}, func() { j.turn("cutover", "cut_over") })
	j.vacuumed(w.databaseDSN(0), []string{"shard_000.block", "shard_000.comment"}, func() { j.turn("rollback", "rolled_back") })
	c.sourceServes(t, true)
	c.finish(t)
}

// vacuumed runs fn while autovacuum is at work on the tables, and demands that it had to
// give way at least once.
func (j *trip) vacuumed(dsn string, tables []string, fn func()) {
	t, w := j.t, j.w
	j.c.rest(func() {
		for _, table := range tables {
			w.bloat(dsn, table)
		}
	})
	eventually(t, time.Minute, "autovacuum to be at work on "+strings.Join(tables, ", "), func() bool {
		at := w.texts(dsn, "SELECT n.nspname || '.' || c.relname FROM pg_stat_progress_vacuum v JOIN pg_class c ON c.oid = v.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE v.datname = current_database()")
		for _, table := range tables {
			if !slices.Contains(at, table) {
				return false
			}
		}
		return true
	})
	before := w.cancelled(dsn)
	fn()
	if n := w.cancelled(dsn) - before; n == 0 {
		t.Errorf("autovacuum of %v never had to give way: the test proved nothing", tables)
	}
}

// bloat leaves dead rows without changing any: enough pages for many seconds of crawling.
func (w *world) bloat(dsn, table string) {
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET shardctl.applier = '"+w.migration+"'; BEGIN"); err != nil {
			return err
		}
		var n int
		if err := conn.QueryRow(ctx, "SELECT greatest(1, 9000 / greatest(1, count(*))) FROM "+table).Scan(&n); err != nil {
			return err
		}
		for range n {
			if _, err := conn.Exec(ctx, "UPDATE "+table+" SET id = id"); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "COMMIT")
		return err
	})
}

// cancelled counts how often autovacuum gave way to a lock on a server.
func (w *world) cancelled(dsn string) int {
	for _, c := range append(slices.Clone(w.targets), w.source) {
		if strings.Contains(dsn, fmt.Sprintf(":%d/", c.Port())) {
			log, err := os.ReadFile(c.LogFile())
			must(w.t, err)
			return strings.Count(string(log), "canceling autovacuum task")
		}
	}
	w.t.Fatalf("no server has the address %s", dsn)
	return 0
}
