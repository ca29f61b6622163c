package main

import (
	"cmp"
	"context"
	_ "embed" // the data
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/sleep"
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

// within makes a world with so many targets for something, and takes it away again.
func within(ctx context.Context, o options, targets int, do func(*world) error) (err error) {
	w, err := newWorld(ctx, o, targets)
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	if err != nil {
		return err
	}
	return do(w)
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
	for _, c := range w.servers() {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, w.folder.Remove())...)
}

// servers are all of them, the source first.
func (w *world) servers() []*localpg.Cluster {
	return append([]*localpg.Cluster{w.source}, w.targets...)
}

// load makes the databases and fills the source.
func (w *world) load(ctx context.Context) error {
	for _, c := range w.servers() {
		if err := runSQL(ctx, c.DSN("postgres"), "CREATE DATABASE "+appName, "CREATE DATABASE "+plainName); err != nil {
			return err
		}
	}
	say("load %d blocks", w.o.rows)
	workspaces := max(w.o.rows/300, 10)
	return runSQL(ctx, w.source.DSN(appName), fmt.Sprintf(loadSQL, w.o.rows, workspaces), "VACUUM (ANALYZE)", "CHECKPOINT")
}

// shape is what differs between the migrations of the suites.
type shape struct {
	shards, databases int // databases: 0 is one a target
	schema, tables    string
	pooler            *localpg.PgBouncer // the router; nil is a file
}

// name of a database on its target.
func (s shape) name(database int) string {
	if s.databases == 0 {
		return appName
	}
	return fmt.Sprintf("%s_%d", appName, database)
}

// writeSpec describes a migration whose shards are placed evenly.
func (w *world) writeSpec(s shape) error {
	var databases, placement []string
	count := cmp.Or(s.databases, len(w.targets))
	each := s.shards / count
	for i := range count {
		databases = append(databases, fmt.Sprintf("  db%d: {dsn: %q}", i, w.targets[i%len(w.targets)].DSN(s.name(i))))
		placement = append(placement, fmt.Sprintf("db%d: %d-%d", i, i*each, (i+1)*each-1))
	}
	router := fmt.Sprintf("{driver: file, path: %q}", w.folder.File("topology.json"))
	if s.pooler != nil {
		router = fmt.Sprintf(`{driver: pgbouncer, instances: [{admin_dsn: %q, databases_file: %s}], entries: [{database: "app_%%03d"}]}`, s.pooler.AdminDSN(), s.pooler.DatabasesFile)
	}
	text := fmt.Sprintf(`version: 1
migration: bench
source: {dsn: %q}
databases:
%s
shards: {count: %d, schema: %q, hash: postgres, placement: {%s}}
tables:
%scapture: {log_soft_limit: 10GB, log_hard_limit: 50GB}
cutover: {max_pause: 5s}
topology: [%s]
`, w.source.DSN(appName), strings.Join(databases, "\n"), s.shards, s.schema, strings.Join(placement, ", "), s.tables, router)
	return os.WriteFile(w.shardctl.spec, []byte(text), 0o600)
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
	for _, c := range w.servers() {
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

// until asks again and again until something is so.
func until(ctx context.Context, every time.Duration, so func() (bool, error)) error {
	for {
		if done, err := so(); done || err != nil {
			return err
		}
		if err := sleep.For(ctx, every); err != nil {
			return err
		}
	}
}
