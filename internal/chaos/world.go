package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/localpg"
)

const (
	shards    = 8
	databases = 2
	operator  = "operator" // whom shardctl is
	app       = "app"      // whom the application is, through the pooler
)

// node is a server with the address that shardctl knows it by.
type node struct {
	*localpg.Cluster
	name  string
	proxy *proxy
}

// world is what many seeds share: the program and the servers.
type world struct {
	folder *localpg.Folder
	source *node
	bases  []*node
	disk   *disk
}

func newWorld(ctx context.Context) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.folder, err = localpg.NewFolder(); err != nil {
		return w, err
	}
	if err := binary.Build(ctx, w.program()); err != nil {
		return w, err
	}
	if w.source, err = newNode(ctx, "source"); err != nil {
		return w, err
	}
	for i := range databases {
		base, err := newNode(ctx, fmt.Sprintf("db%d", i))
		if err != nil {
			return w, err
		}
		w.bases = append(w.bases, base)
	}
	w.disk, err = newDisk(ctx, w.bases[0])
	return w, err
}

func (w *world) program() string { return w.folder.File("shardctl") }

func newNode(ctx context.Context, name string) (*node, error) {
	c, err := localpg.NewCluster(ctx, localpg.Options{Settings: []string{
		"max_connections=150", "shared_buffers=64MB", "max_wal_size=2GB", "log_line_prefix='%m [%p] %a '", "max_locks_per_transaction=256",
	}})
	if err != nil {
		return nil, err
	}
	n := &node{Cluster: c, name: name}
	roles := "CREATE ROLE " + operator + " SUPERUSER LOGIN; CREATE ROLE " + app + " LOGIN"
	if err := execSQL(ctx, n.DSN("postgres"), roles); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	n.proxy, err = newProxy(fmt.Sprintf("127.0.0.1:%d", c.Port()))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return n, nil
}

func (n *node) close() error {
	n.proxy.close()
	return n.Close()
}

func (w *world) close() error {
	var errs []error
	for _, n := range w.nodes() {
		errs = append(errs, n.close())
	}
	if w.disk != nil {
		errs = append(errs, w.disk.close())
	}
	if w.folder != nil {
		errs = append(errs, w.folder.Remove())
	}
	return errors.Join(errs...)
}

func (w *world) nodes() []*node {
	nodes := w.bases
	if w.source != nil {
		nodes = slices.Concat([]*node{w.source}, w.bases)
	}
	return nodes
}

// execSQL runs statements on a session of its own.
func execSQL(ctx context.Context, dsn, sql string) error {
	return on(ctx, dsn, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	})
}

// on opens a session of its own, past every proxy, for one piece of work.
func on(ctx context.Context, dsn string, work func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(conn)
}

// site is the part of the world that one seed has: databases of its own, a pooler, a spec.
type site struct {
	*world
	name    string
	bouncer *localpg.PgBouncer
	spec    string
	env     []string

	mu       sync.Mutex
	touched  time.Time // when the last fault began or ended
	commands []begun
}

// begun is a command that was started.
type begun struct {
	*binary.Command
	at time.Time
}

// touch notes that a fault begins or ends: what commands may take begins anew.
func (s *site) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = time.Now()
}

func (s *site) lastHit() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touched
}

// transcript is what all commands of the seed said.
func (s *site) transcript() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, c := range s.commands {
		end := "runs"
		if c.Ended() {
			end = fmt.Sprintf("exit %d", c.Result().Code)
		}
		fmt.Fprintf(&b, "== %s pid %d: %s: %s\n%s%s\n", c.at.Format("15:04:05.000"), c.PID(), c, end, c.Stdout(), c.Stderr())
	}
	return b.String()
}

func newSite(ctx context.Context, w *world, plan plan) (s *site, err error) {
	s = &site{world: w, name: fmt.Sprintf("seed%d", plan.seed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	for _, n := range w.nodes() {
		where := ""
		if n == w.bases[0] && plan.has(diskFull) && w.disk.why == "" {
			where = " TABLESPACE " + smallSpace
		}
		if err := execSQL(ctx, n.DSN("postgres"), "CREATE DATABASE "+s.name+where); err != nil {
			return s, err
		}
	}
	if err := s.startPooler(ctx); err != nil {
		return s, err
	}
	return s, s.writeSpec()
}

func (s *site) dsn(n *node) string { return n.DSN(s.name) }

// startPooler starts PgBouncer with an entry for each shard, all on the source.
func (s *site) startPooler(ctx context.Context) (err error) {
	var b strings.Builder
	b.WriteString("[databases]\n")
	for i := range shards {
		fmt.Fprintf(&b, "app_%03d = host=127.0.0.1 port=%d dbname=%s pool_size=3\n", i, s.source.proxy.port(), s.name)
	}
	s.bouncer, err = localpg.NewPgBouncer(ctx, localpg.PgBouncerOptions{
		Databases: b.String(), Users: []string{app, operator}, Settings: []string{"max_client_conn = 500", "query_wait_timeout = 60"},
	})
	return err
}

// entry is how the application reaches a shard.
func (s *site) entry(shard int) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/app_%03d?sslmode=disable&connect_timeout=5", app, s.bouncer.Port(), shard)
}

func (s *site) writeSpec() error {
	address := func(n *node) string {
		return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", operator, n.proxy.port(), s.name)
	}
	text := fmt.Sprintf(`version: 1
migration: chaos
source: {dsn: "${SOURCE_DSN}"}
databases:
  db0: {dsn: "${DB0_DSN}"}
  db1: {dsn: "${DB1_DSN}"}
shards: {count: %d, schema: "shard_%%03d", hash: postgres, placement: {db0: 0-%d, db1: %d-%d}}
tables:
  - {name: public.workspace, key: id}
  - {name: public.block, key: workspace_id, version: version}
  - {name: public.comment, key: {from: public.block, via: block_id, store_as: workspace_id}}
throttle: {max_rate: %d}
cutover: {max_pause: %s, verify_max_age: 1h, rollback_window: 1h}
topology:
  - driver: pgbouncer
    instances: [{admin_dsn: "${PGB_ADMIN}", databases_file: "%s"}]
    entries: [{database: "app_%%03d"}]
  - {driver: file, path: "%s"}
`, shards, shards/databases-1, shards/databases, shards-1, copyRate, maxPause, s.bouncer.DatabasesFile, s.folder.File(s.name+".json"))
	s.spec = s.folder.File(s.name + ".yaml")
	s.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHARDCTL_") || strings.HasPrefix(v, "PG") })
	s.env = append(s.env, "SOURCE_DSN="+address(s.source), "PGB_ADMIN="+s.bouncer.AdminDSN())
	for i, n := range s.bases {
		s.env = append(s.env, fmt.Sprintf("DB%d_DSN=%s", i, address(n)))
	}
	return os.WriteFile(s.spec, []byte(text), 0o600)
}

// close removes what the seed made in the world.
func (s *site) close(ctx context.Context) error {
	var errs []error
	if s.bouncer != nil {
		errs = append(errs, s.bouncer.Close())
	}
	for _, n := range s.nodes() {
		errs = append(errs, n.Start(ctx), execSQL(ctx, n.DSN("postgres"), "DROP DATABASE IF EXISTS "+s.name+" WITH (FORCE)"),
			execSQL(ctx, n.DSN("postgres"), "ALTER ROLE "+operator+" RESET ALL"))
	}
	return errors.Join(errs...)
}
