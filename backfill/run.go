package backfill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// run is one execution of the command.
type run struct {
	cfg       Config
	events    *events
	outages   *outages
	queue     *queue
	throttle  *throttle
	watch     *session            // on the source: measurements, modes, catalog
	databases map[string]*session // of all databases: modes, keys, positions
	replica   *replica
	encoding  string        // of the source
	overfull  chan struct{} // the logs are at their soft limit
	large     chan struct{} // taken by the worker that holds a very large row

	mu     sync.Mutex
	modes  map[string]settled
	routes map[string]*route
}

// Result is what a run came to.
type Result struct {
	NothingToDo bool          // every database had everything before
	Phase       migrate.Phase // afterwards
	Rows        int64         // that the tables had when they were read, of all plans
	Skipped     int64         // rows without a key, left out as agreed
}

// Run copies what the databases lack, and finishes them. It may be repeated and
// run by several processes at once. It moves the migration to backfilling, and to
// backfilled once no database lacks anything. Without an error, none of Config.Only does.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.complete(); err != nil {
		return Result{}, err
	}
	r := newRun(cfg)
	defer r.close(ctx)
	phase, err := r.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	if done, err := r.doneBefore(ctx, phase); err != nil || done {
		return r.nothingToDo(ctx, err)
	}
	lacking, err := r.prepare(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := r.copyAndConclude(ctx, lacking); err != nil {
		return Result{}, err
	}
	return r.result(ctx)
}

// copyAndConclude ends when no database of this run lacks anything. One that fails over
// while what follows the copy is made may lose chunks that it had: they are copied again.
func (r *run) copyAndConclude(ctx context.Context, lacking int) error {
	names := r.cfg.Only
	for range concludeTries {
		if err := r.copyAll(ctx, lacking); err != nil {
			return err
		}
		lost, err := r.conclude(ctx, names)
		if err != nil || len(lost) == 0 {
			return err
		}
		names = lost
		if lacking, err = r.reconcile(ctx); err != nil {
			return err
		}
	}
	return lostFailure(names)
}

// copyAll copies until no database of this run lacks a chunk.
func (r *run) copyAll(ctx context.Context, lacking int) (err error) {
	for lacking > 0 {
		if err := r.copy(ctx); err != nil {
			return err
		}
		if lacking, err = r.reconcile(ctx); err != nil {
			return err
		}
		if lacking > 0 { // other processes have the rest
			if err := sleep.For(ctx, othersEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// othersEvery is how often a process that has nothing to copy looks again.
const othersEvery = 250 * time.Millisecond

// doneBefore reports whether the phase is past and nothing lacks since.
func (r *run) doneBefore(ctx context.Context, phase migrate.Phase) (bool, error) {
	if phase == migrate.Backfilling {
		return false, nil
	}
	for _, name := range r.cfg.Only {
		lacks, err := r.lacks(ctx, name)
		if err != nil || lacks != "" {
			return false, err
		}
	}
	return true, nil
}

func (r *run) nothingToDo(ctx context.Context, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	res, err := r.result(ctx)
	res.NothingToDo = true
	return res, err
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, events: &events{each: cfg.Events}, databases: map[string]*session{}, overfull: make(chan struct{}, 1), large: make(chan struct{}, 1),
		modes: map[string]settled{}, routes: map[string]*route{}}
	r.outages = newOutages(cfg.MaxOutage, r.events)
	host, _ := os.Hostname() // only a part of a name that the uuid makes unique
	r.queue = newQueue(&cfg, fmt.Sprintf("%s:%d:%s", host, os.Getpid(), uuid.New()))
	r.throttle = &throttle{measure: r.measure, events: r.events, rate: cfg.Layout.Spec.Throttle.MaxRate}
	r.watch = &session{open: func(ctx context.Context) (*pgx.Conn, error) {
		return postgres.Connect(ctx, cfg.Source, "backfill watch")
	}}
	for _, d := range cfg.Databases {
		r.databases[d.Name] = &session{open: func(ctx context.Context) (*pgx.Conn, error) {
			return connectWriter(ctx, d, cfg.migration(), "backfill watch")
		}}
	}
	return r
}

func (r *run) close(ctx context.Context) {
	r.queue.session.close(ctx)
	r.watch.close(ctx)
	for _, d := range r.databases {
		d.close(ctx)
	}
}

// begin checks the phase, and moves from installed to backfilling.
func (r *run) begin(ctx context.Context) (phase migrate.Phase, err error) {
	err = r.watch.with(ctx, func(conn *pgx.Conn) error {
		m, err := store.LoadMigration(ctx, conn, r.cfg.migration())
		if errors.Is(err, store.ErrNotFound) {
			return phaseFailure(migrate.New)
		}
		if err != nil {
			return err
		}
		phase = m.Phase
		switch phase {
		case migrate.New, migrate.Prepared, migrate.Completed, migrate.Aborted:
			return phaseFailure(phase)
		case migrate.Installed:
			phase = migrate.Backfilling
			err = postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
				return store.SetPhase(ctx, tx, r.cfg.migration(), migrate.Backfilling)
			})
		}
		if err != nil {
			return err
		}
		return r.readSource(ctx, conn, m)
	})
	return phase, err
}

func phaseFailure(p migrate.Phase) error {
	return migrate.Refuse("phase.order", "backfill", "the migration is "+p.String(), "run `"+p.Next()+"` first")
}

// readSource learns what a replica must prove, and the source's encoding.
func (r *run) readSource(ctx context.Context, conn *pgx.Conn, m *store.Migration) error {
	r.encoding = conn.PgConn().ParameterStatus("server_encoding")
	if r.cfg.Read == nil {
		return nil
	}
	if m.InstallLSN == nil {
		return migrate.Refuse("read_dsn.install", "source.read_dsn", "it is not known how far a replica must be: install left no position", "run `shardctl install` again")
	}
	id, err := postgres.ReadIdentity(ctx, conn)
	if err != nil {
		return err
	}
	r.replica = &replica{systemIdentifier: id.SystemIdentifier, after: *m.InstallLSN}
	return nil
}
