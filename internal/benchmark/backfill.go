package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/localpg"
)

// plainTable is where a reference copies to: the key is there, indexes follow the rows.
const plainTable = `DROP TABLE IF EXISTS block; CREATE TABLE block (id uuid NOT NULL PRIMARY KEY, workspace_id uuid NOT NULL, parent_id uuid, kind text NOT NULL,
  properties jsonb NOT NULL, content uuid[] NOT NULL, alive boolean NOT NULL, version bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)`

const plainIndexes = "CREATE INDEX ON block (workspace_id); CREATE INDEX ON block (parent_id)"

// contender is one way to copy.
type contender struct {
	name string
	copy func(context.Context) (time.Duration, error)
}

// backfills measures the copy of block to four databases in both modes beside all others.
func (w *world) backfills(ctx context.Context) error {
	all := []contender{
		{"pipes", w.pipes},
		{"live", func(ctx context.Context) (time.Duration, error) { return w.migrated(ctx, "live") }},
		{"fast", func(ctx context.Context) (time.Duration, error) { return w.migrated(ctx, "fast") }},
	}
	if w.o.wants("backfill_fast_vs_native") {
		all = append(all, contender{"native", w.native})
	}
	if _, err := exec.LookPath("pgcopydb"); err == nil && w.o.wants("backfill_fast_vs_pgcopydb") {
		all = append(all, contender{"pgcopydb", w.pgcopydb})
	}
	took, cpu := map[string]samples{}, map[string]samples{}
	for range w.o.rounds {
		for _, c := range all {
			if err := w.settle(ctx); err != nil {
				return err
			}
			used, err := localpg.ServerCPU(w.source.PID())
			if err != nil {
				return err
			}
			d, err := c.copy(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			after, err := localpg.ServerCPU(w.source.PID())
			if err != nil {
				return err
			}
			say("  %-9s %7.2f s, CPU of the source %6.2f s", c.name, d.Seconds(), (after - used).Seconds())
			took[c.name] = append(took[c.name], d.Seconds())
			cpu[c.name] = append(cpu[c.name], (after - used).Seconds())
		}
		used, err := w.plainRead(ctx)
		if err != nil {
			return err
		}
		cpu["read"] = append(cpu["read"], used.Seconds())
	}
	for _, m := range []measure{
		compare("backfill_live_vs_pipes", 1.0, "s", took["live"], took["pipes"]),
		compare("backfill_fast_vs_pipes", 0.8, "s", took["fast"], took["pipes"]),
		compare("backfill_fast_vs_pgcopydb", 0.65, "s", took["fast"], took["pgcopydb"]),
		compare("backfill_fast_vs_native", 0.35, "s", took["fast"], took["native"]),
		compare("backfill_source_cpu", 1.2, "s of CPU", cpu["live"], cpu["read"]),
	} {
		if w.o.wants(m.Name) && m.Reference > 0 {
			if err := m.print(); err != nil {
				return err
			}
		}
	}
	return nil
}

// migrated prepares a migration, measures its backfill, and takes it away again.
func (w *world) migrated(ctx context.Context, mode string) (time.Duration, error) {
	if err := w.begin(ctx); err != nil {
		return 0, err
	}
	d, err := w.copyOnce(ctx, mode)
	if err != nil {
		return d, err
	}
	if err := w.whole(ctx, appName, "app.block"); err != nil {
		return d, err
	}
	return d, w.end(ctx)
}

// copyOnce runs a backfill beside a catchup. In fast mode that comes second: a row that it
// has written would forbid the mode.
func (w *world) copyOnce(ctx context.Context, mode string) (took time.Duration, err error) {
	var catchup *running
	if mode == "live" {
		if catchup, err = w.shardctl.start(ctx, "catchup"); err != nil {
			return 0, err
		}
	}
	copying, err := w.shardctl.start(ctx, "backfill", "--mode", mode)
	if err != nil {
		return 0, err
	}
	if catchup == nil {
		if err := w.modesChosen(ctx, copying); err != nil {
			return 0, err
		}
		if catchup, err = w.shardctl.start(ctx, "catchup"); err != nil {
			return 0, err
		}
	}
	took, err = copying.wait()
	return took, errors.Join(err, catchup.stop())
}

// modesChosen waits until a backfill has entered its modes, or has ended.
func (w *world) modesChosen(ctx context.Context, copying *running) error {
	return until(ctx, 10*time.Millisecond, func() (bool, error) {
		chosen, err := value(ctx, w.source.DSN(appName), "SELECT count(*) FROM shardctl.backfill_mode WHERE migration = 'bench'")
		return int(chosen) == len(w.targets) || copying.Ended(), err
	})
}

// pipes copies with one filtered `COPY … | COPY` a database, and builds two indexes each.
func (w *world) pipes(ctx context.Context) (time.Duration, error) {
	for _, c := range w.targets {
		if err := runSQL(ctx, c.DSN(plainName), plainTable); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	var g errgroup.Group
	for i, c := range w.targets {
		g.Go(func() error {
			query := fmt.Sprintf("COPY (SELECT * FROM block WHERE uuid_hash_extended(workspace_id, 0) & 3 = %d) TO STDOUT (FORMAT binary)", i)
			if err := pipe(ctx, w.source.DSN(appName), query, c.DSN(plainName)); err != nil {
				return err
			}
			return runSQL(ctx, c.DSN(plainName), plainIndexes)
		})
	}
	err := g.Wait()
	took := time.Since(started)
	return took, errors.Join(err, w.whole(ctx, plainName, "block"))
}

// pipe copies the rows of a query from one server to another with psql.
func pipe(ctx context.Context, from, query, to string) error {
	cmd := exec.CommandContext(ctx, "bash", "-c", `set -o pipefail; psql -XqAt -d "$FROM" -c "$QUERY" | psql -Xq -d "$TO" -c "COPY block FROM STDIN (FORMAT binary)"`)
	cmd.Env = append(os.Environ(), "FROM="+from, "QUERY="+query, "TO="+to)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%.80s: %w: %s", query, err, out)
	}
	return nil
}

// plainRead is the CPU that the source needs to give the table away once.
func (w *world) plainRead(ctx context.Context) (time.Duration, error) {
	before, err := localpg.ServerCPU(w.source.PID())
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "psql", "-XqAt", "-d", w.source.DSN(appName), "-c", "COPY block TO STDOUT (FORMAT binary)") // to nowhere
	var failed bytes.Buffer
	cmd.Stderr = &failed
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("read block: %w: %s", err, failed.String())
	}
	after, err := localpg.ServerCPU(w.source.PID())
	return after - before, err
}

// native is the server's own initial synchronisation, into one database.
func (w *world) native(ctx context.Context) (time.Duration, error) {
	took, err := w.subscribe(ctx)
	if err != nil {
		return took, err
	}
	return took, runSQL(ctx, w.targets[0].DSN(plainName), "DROP SUBSCRIPTION s")
}

// pgcopydb copies with pgcopydb, two jobs of each kind, as two processors allow. It has
// to copy the whole database, so it is given one that holds block alone.
func (w *world) pgcopydb(ctx context.Context) (time.Duration, error) {
	if err := w.loneBlock(ctx); err != nil {
		return 0, err
	}
	to := w.targets[0].DSN(plainName)
	if err := runSQL(ctx, to, "DROP TABLE IF EXISTS block CASCADE"); err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "shardctl-pgcopydb-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	started := time.Now()
	cmd := exec.CommandContext(ctx, "pgcopydb", "clone", "--source", w.source.DSN(plainName), "--target", to,
		"--table-jobs", "2", "--index-jobs", "2", "--split-tables-larger-than", "500MB", "--dir", folder+"/work", "--no-owner", "--restart", "--no-acl", "--skip-extensions", "--not-consistent")
	out, err := cmd.CombinedOutput()
	took := time.Since(started)
	if err != nil {
		return took, fmt.Errorf("pgcopydb: %w: %s", err, out[max(0, len(out)-2000):])
	}
	return took, nil
}

// loneBlock makes the database that pgcopydb copies from, once.
func (w *world) loneBlock(ctx context.Context) error {
	there, err := value(ctx, w.source.DSN(plainName), "SELECT count(*) FROM pg_class WHERE relname = 'block'")
	if err != nil || there > 0 {
		return err
	}
	if err := runSQL(ctx, w.source.DSN(plainName), plainTable); err != nil {
		return err
	}
	if err := pipe(ctx, w.source.DSN(appName), "COPY block TO STDOUT (FORMAT binary)", w.source.DSN(plainName)); err != nil {
		return err
	}
	return runSQL(ctx, w.source.DSN(plainName), plainIndexes, "VACUUM (ANALYZE)", "CHECKPOINT")
}
