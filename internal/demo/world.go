package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/localpg"
)

// databases is how many databases the source is split over.
const databases = 2

// world is the servers of one demo.
type world struct {
	folder  *localpg.Folder // the spec, the topology document
	source  database
	targets []database
	bouncer *localpg.PgBouncer
	shards  int
}

// build starts the servers; close ends them and removes everything.
func build(ctx context.Context, o Options) (w *world, err error) {
	m, err := findMaker(ctx, o.Image)
	if err != nil {
		return nil, err
	}
	w = &world{shards: o.Shards}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
			w = nil
		}
	}()
	if w.folder, err = localpg.NewFolder(); err != nil {
		return w, err
	}
	// Each entry of the pooler keeps a few connections of its own.
	settings := []string{fmt.Sprintf("max_connections=%d", 200+2*o.Shards), "shared_buffers=128MB", "max_wal_size=4GB", "max_prepared_transactions=5",
		"max_locks_per_transaction=1024"} // a schema per shard: every location's tables in one transaction
	if w.source, err = m.make(ctx, settings); err != nil {
		return w, err
	}
	for range databases {
		target, err := m.make(ctx, settings)
		if err != nil {
			return w, err
		}
		w.targets = append(w.targets, target)
	}
	w.bouncer, err = localpg.NewPgBouncer(ctx, localpg.PgBouncerOptions{Databases: w.entries(), Password: m.password,
		Settings: []string{"default_pool_size = 4", "server_idle_timeout = 20", "max_client_conn = 2000"}})
	return w, err
}

// entries are the pooler's databases before the migration: one per logical shard,
// all of them on the source.
func (w *world) entries() string {
	var b strings.Builder
	b.WriteString("[databases]\n")
	for i := range w.shards {
		fmt.Fprintf(&b, "app_%03d = host=127.0.0.1 port=%d dbname=postgres connect_query='SET search_path = shard_%03d, public'\n", i, w.source.Port(), i)
	}
	return b.String()
}

// servers lists what runs, in the order in which it can be ended.
func (w *world) servers() []server {
	var all []server
	if w.bouncer != nil {
		all = append(all, w.bouncer)
	}
	for _, t := range w.targets {
		all = append(all, t)
	}
	if w.source != nil {
		all = append(all, w.source)
	}
	return all
}

func (w *world) close() error {
	var errs []error
	for _, s := range w.servers() {
		errs = append(errs, s.Close())
	}
	if w.folder != nil {
		errs = append(errs, w.folder.Remove())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrLeft, err)
	}
	return nil
}

// specFile writes the spec and gives its path.
func (w *world) specFile() (string, error) {
	half := w.shards / databases
	spec := fmt.Sprintf(`version: 1
migration: demo
source:
  dsn: %q
databases:
  db0: {dsn: %q}
  db1: {dsn: %q}
shards:
  count: %d
  schema: "shard_%%03d"
  hash: postgres
  placement: {db0: 0-%d, db1: %d-%d}
tables:
  - name: public.workspace
    key: id
  - name: public.block
    key: workspace_id
    version: version
  - name: public.comment
    key: {from: public.block, via: block_id, store_as: workspace_id}
cutover: {max_pause: %s, verify_max_age: 1h, rollback_window: 1h}
topology:
  - driver: pgbouncer
    instances: [{admin_dsn: %q, databases_file: %s}]
    entries: [{database: "app_%%03d"}]
  - driver: file
    path: %s
`, w.source.DSN("postgres"), w.targets[0].DSN("postgres"), w.targets[1].DSN("postgres"), w.shards, half-1, half, w.shards-1,
		w.maxPause(), w.bouncer.AdminDSN(), w.bouncer.DatabasesFile, w.folder.File("topology.json"))
	path := w.folder.File("shardctl.yaml")
	if err := os.WriteFile(path, []byte(spec), 0o600); err != nil {
		return "", fmt.Errorf("write the demo's spec: %w", err)
	}
	return path, nil
}

// maxPause is what a switch may take at most. Five servers and the writer share this
// machine with it, and each location costs a few milliseconds to open.
func (w *world) maxPause() time.Duration {
	return 4*time.Second + time.Duration(w.shards)*25*time.Millisecond
}

// session opens a direct session.
func session(ctx context.Context, dsn string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to a demo server: %w", err)
	}
	return conn, nil
}
