package main

import (
	"context"
	_ "embed" // the data
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/localpg"
)

//go:embed load.sql
var loadSQL string

// Names of databases: app is the source's and what shardctl copies to, plain what the
// reference does.
const (
	appName   = "app"
	plainName = "plain"
)

// settings are a server's that is made for writes, and fits a small machine.
var settings = []string{"wal_level=logical", "max_wal_senders=20", "max_replication_slots=20", "max_connections=200", "shared_buffers=512MB",
	"max_wal_size=4GB", "checkpoint_timeout=15min", "max_worker_processes=24", "max_logical_replication_workers=16", "track_io_timing=off"}

// world is a source, four databases on servers of their own, and shardctl.
type world struct {
	o        options
	folder   *localpg.Folder
	source   *localpg.Cluster
	targets  []*localpg.Cluster
	shardctl *program
}

func newWorld(ctx context.Context, o options, targets int) (w *world, err error) {
	w = &world{o: o}
	if w.folder, err = localpg.NewFolder(); err != nil {
		return nil, err
	}
	if w.shardctl, err = build(ctx, w.folder.Path()); err != nil {
		return w, err
	}
	say("start %d servers", targets+1)
	clusters := make([]*localpg.Cluster, targets+1)
	var g errgroup.Group
	for i := range clusters {
		g.Go(func() (err error) {
			clusters[i], err = localpg.NewCluster(ctx, localpg.Options{Fsync: true, Settings: settings})
			return err
		})
	}
	err = g.Wait()
	for i, c := range clusters {
		if c != nil && i == 0 {
			w.source = c
		} else if c != nil {
			w.targets = append(w.targets, c)
		}
	}
	return w, err
}

func (w *world) close() error {
	var errs []error
	for _, c := range append(w.targets, w.source) {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, w.folder.Remove())...)
}

// load makes the databases and fills the source.
func (w *world) load(ctx context.Context) error {
	for _, c := range append([]*localpg.Cluster{w.source}, w.targets...) {
		if err := runSQL(ctx, c.DSN("postgres"), "CREATE DATABASE "+appName, "CREATE DATABASE "+plainName); err != nil {
			return err
		}
	}
	say("load %d blocks", w.o.rows)
	workspaces := max(w.o.rows/300, 10)
	return runSQL(ctx, w.source.DSN(appName), fmt.Sprintf(loadSQL, w.o.rows, workspaces), "VACUUM (ANALYZE)", "CHECKPOINT")
}

// writeSpec describes the migration of block to all databases.
func (w *world) writeSpec(tables string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nmigration: bench\nsource: {dsn: %q}\ndatabases:\n", w.source.DSN(appName))
	var placement []string
	for i, c := range w.targets {
		fmt.Fprintf(&b, "  db%d: {dsn: %q}\n", i, c.DSN(appName))
		placement = append(placement, fmt.Sprintf("db%d: %d-%d", i, 4*i, 4*i+3))
	}
	fmt.Fprintf(&b, "shards: {count: %d, schema: app, hash: postgres, placement: {%s}}\ntables:\n%s", 4*len(w.targets), strings.Join(placement, ", "), tables)
	fmt.Fprintf(&b, "capture: {log_soft_limit: 10GB, log_hard_limit: 50GB}\ntopology:\n  - {driver: file, path: %q}\n", w.folder.File("topology.json"))
	return os.WriteFile(w.shardctl.spec, []byte(b.String()), 0o600)
}

// begin brings a migration to installed; end takes it away.
func (w *world) begin(ctx context.Context) error {
	return w.shardctl.each(ctx, []string{"prepare"}, []string{"install"})
}

func (w *world) end(ctx context.Context) error {
	return w.shardctl.each(ctx, []string{"abort", "--yes"})
}

// settle lets no server's housekeeping fall into the next measurement.
func (w *world) settle(ctx context.Context) error {
	var g errgroup.Group
	for _, c := range append([]*localpg.Cluster{w.source}, w.targets...) {
		g.Go(func() error { return runSQL(ctx, c.DSN(appName), "CHECKPOINT") })
	}
	return g.Wait()
}

// runSQL runs statements, each by itself, on a session of its own.
func runSQL(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// value reads one number.
func value(ctx context.Context, dsn, query string, args ...any) (n float64, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%.60s: %w", query, err)
	}
	return n, nil
}
