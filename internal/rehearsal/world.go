package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// maxServers is how many servers the databases share: more would only take this
// machine's memory.
const maxServers = 4

// Options of a rehearsal.
type Options struct {
	Spec  *migrate.Spec
	Rows  int               // of each table, at most; 0: none
	Phase func(name string) // is told what begins; nil is nobody
}

// World is what a rehearsal runs on.
type World struct {
	SpecFile string
	Rows     int64 // copied from the real source

	folder  *localpg.Folder
	source  *localpg.Cluster
	targets []*localpg.Cluster
	poolers []*localpg.PgBouncer
	at      place
}

// Build starts the servers and fills the source; Close ends and removes everything,
// also after an error.
func Build(ctx context.Context, o Options) (*World, error) {
	w := &World{at: place{databases: map[string]string{}, poolers: map[int]pooler{}, files: map[int]string{}}}
	if o.Phase == nil {
		o.Phase = func(string) {}
	}
	real, err := postgres.Connect(ctx, postgres.Target{Name: "source", DSN: o.Spec.Source.DSN}, "rehearse")
	if err != nil {
		return w, err
	}
	defer postgres.CloseQuietly(ctx, real)
	if err := refuseBegun(ctx, real); err != nil {
		return w, err
	}
	o.Phase("starting servers")
	if err := w.servers(ctx, o.Spec); err != nil {
		return w, err
	}
	o.Phase("taking the schema")
	if err := w.copySchema(ctx, real, o.Spec); err != nil {
		return w, err
	}
	if o.Rows > 0 {
		o.Phase("taking rows")
		if err := w.copyRows(ctx, real, o); err != nil {
			return w, err
		}
	}
	return w, w.writeSpec(ctx, o.Spec)
}

// refuseBegun: a source that is under migration has triggers that belong to its state.
func refuseBegun(ctx context.Context, real *pgx.Conn) error {
	var begun bool
	if err := real.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgname LIKE 'shardctl\_%')`).Scan(&begun); err != nil {
		return fmt.Errorf("look for a migration under way: %w", err)
	}
	if begun {
		return migrate.Refuse("rehearse.begun", "source", "a migration is under way there: its triggers cannot be taken along", "rehearse before install")
	}
	return nil
}

func (w *World) servers(ctx context.Context, spec *migrate.Spec) (err error) {
	if w.folder, err = localpg.NewFolder(); err != nil {
		return err
	}
	settings := []string{fmt.Sprintf("max_connections=%d", 200+2*spec.Shards.Count), "shared_buffers=64MB", "max_prepared_transactions=5",
		"max_locks_per_transaction=1024"} // a schema per shard: every location's tables in one transaction
	start := func() (*localpg.Cluster, error) {
		c, err := localpg.NewCluster(ctx, localpg.Options{Settings: settings})
		if errors.Is(err, localpg.ErrNotFound) {
			err = migrate.Broken("rehearse.lacking", "rehearse", "needs PostgreSQL server programs on this machine", "on Debian: apt-get install postgresql pgbouncer", nil)
		}
		return c, err
	}
	if w.source, err = start(); err != nil {
		return err
	}
	for range min(maxServers, len(spec.Databases)) {
		c, err := start()
		if err != nil {
			return err
		}
		w.targets = append(w.targets, c)
	}
	return nil
}

// startPoolers starts one for each router that is a pooler, all on the source.
func (w *World) startPoolers(ctx context.Context, spec *migrate.Spec) error {
	for i, r := range spec.Topology {
		switch r.Driver {
		case "file", "exec":
			w.at.files[i] = w.folder.File(fmt.Sprintf("topology_%d.json", i))
		case "pgbouncer":
			b, err := localpg.NewPgBouncer(ctx, localpg.PgBouncerOptions{Databases: w.entries(spec, r),
				Settings: []string{"default_pool_size = 4", "max_client_conn = 2000"}})
			if err != nil {
				return err
			}
			w.poolers = append(w.poolers, b)
			w.at.poolers[i] = pooler{admin: b.AdminDSN(), file: b.DatabasesFile}
		}
	}
	return nil
}

func (w *World) entries(spec *migrate.Spec, r migrate.Router) string {
	var b strings.Builder
	b.WriteString("[databases]\n")
	for _, e := range r.Entries {
		for shard := range spec.Shards.Count {
			fmt.Fprintf(&b, "%s = host=127.0.0.1 port=%d dbname=%s\n", migrate.Number(e.Database, shard), w.source.Port(), sourceName)
			if !migrate.Numbered(e.Database) {
				break
			}
		}
	}
	return b.String()
}

func (w *World) writeSpec(ctx context.Context, spec *migrate.Spec) error {
	if err := w.startPoolers(ctx, spec); err != nil {
		return err
	}
	// All servers share this machine, and each location costs a few milliseconds to open.
	w.at.source, w.at.maxPause = w.source.DSN(sourceName), max(spec.Cutover.MaxPause, 4*time.Second+time.Duration(spec.Shards.Count)*25*time.Millisecond)
	text, err := document(spec, w.at)
	if err != nil {
		return err
	}
	w.SpecFile = w.folder.File("shardctl.yaml")
	if err := os.WriteFile(w.SpecFile, text, 0o600); err != nil {
		return fmt.Errorf("write the rehearsal's spec: %w", err)
	}
	return nil
}

// Close ends the servers and removes everything.
func (w *World) Close() error {
	var errs []error
	for _, b := range w.poolers {
		errs = append(errs, b.Close())
	}
	for _, c := range append(w.targets, w.source) {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if w.folder != nil {
		errs = append(errs, w.folder.Remove())
	}
	return errors.Join(errs...)
}
