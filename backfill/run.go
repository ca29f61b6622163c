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
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
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
// backfilled once no database lacks anything.
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
	for lacking > 0 {
		if err := r.copy(ctx); err != nil {
			return Result{}, err
		}
		if lacking, err = r.reconcile(ctx); err != nil {
			return Result{}, err
		}
		if lacking > 0 { // other processes have the rest
			if err := sleep(ctx, othersEvery); err != nil {
				return Result{}, err
			}
		}
	}
	if err := r.conclude(ctx); err != nil {
		return Result{}, err
	}
	return r.result(ctx)
}

// othersEvery is how often a process that has nothing to copy looks again.
const othersEvery = 250 * time.Millisecond

// doneBefore reports whether the phase is past and nothing lacks since.
func (r *run) doneBefore(ctx context.Context, phase migrate.Phase) (bool, error) {
	if phase == migrate.Backfilling {
		return false, nil
	}
	for _, name := range r.cfg.Only {
		missing, err := r.missing(ctx, name)
		if err != nil || missing > 0 {
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

// prepare settles modes and plans, and gives the number of chunks that lack.
func (r *run) prepare(ctx context.Context) (lacking int, err error) {
	for _, name := range r.cfg.Only {
		if err := r.settle(ctx, name); err != nil {
			return 0, err
		}
	}
	if err := r.heldPosition(ctx); err != nil {
		return 0, err
	}
	if err := r.replan(ctx); err != nil {
		return 0, err
	}
	return r.reconcile(ctx)
}

func (r *run) settle(ctx context.Context, name string) error {
	var s settled
	err := r.databases[name].with(ctx, func(conn *pgx.Conn) error {
		if err := r.ensurePruned(ctx, conn); err != nil {
			return err
		}
		var err error
		s, err = settle(ctx, r.watch, conn, r.cfg.Layout, name, r.cfg.Mode)
		return err
	})
	if err != nil {
		return fmt.Errorf("database %s: %w", name, err)
	}
	r.mu.Lock()
	r.modes[name] = s
	r.mu.Unlock()
	r.events.emit(Event{Kind: EventMode, Database: name, Message: fmt.Sprintf("%s: %s", s.mode, s.reason)})
	return nil
}

// ensurePruned makes the rows that chunks lock against pruning.
func (r *run) ensurePruned(ctx context.Context, conn *pgx.Conn) error {
	const sql = `INSERT INTO shardctl.pruned (migration, table_no) SELECT $1, generate_series(1, $2::int) ON CONFLICT DO NOTHING`
	_, err := conn.Exec(ctx, sql, r.cfg.migration(), len(r.cfg.Layout.Tables))
	return err
}

// heldPosition makes a replica wait for what a held database has seen, too.
func (r *run) heldPosition(ctx context.Context) error {
	if r.replica == nil {
		return nil
	}
	for _, name := range r.cfg.Only {
		if r.mode(name).mode != Fast {
			continue
		}
		p, err := r.position(ctx, name)
		if err != nil {
			return err
		}
		err = r.watch.with(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT greatest($1::text::pg_lsn, $2::text::pg_lsn)::text", r.replica.after, p.LSN).Scan(&r.replica.after)
		})
		if err != nil {
			return fmt.Errorf("compare positions: %w", err)
		}
	}
	return nil
}

func (r *run) mode(database string) settled {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.modes[database]
}

func (r *run) generation(database string) int64 { return r.mode(database).generation }

// learnGenerations reads control.plan again, of the databases of this run that
// are in reach.
func (r *run) learnGenerations(ctx context.Context) error {
	for _, name := range r.cfg.Only {
		var c store.Control
		err := r.databases[name].with(ctx, func(conn *pgx.Conn) (err error) {
			c, err = store.LoadControl(ctx, conn, r.cfg.migration())
			return err
		})
		if err != nil {
			if err := r.outages.note(name, err); err != nil {
				return err
			}
			continue
		}
		r.mu.Lock()
		s := r.modes[name]
		s.generation = c.Plan
		r.modes[name] = s
		r.mu.Unlock()
	}
	return nil
}

// replan brings the plans in line with the source's catalog.
func (r *run) replan(ctx context.Context) error {
	var now *layout.Layout
	err := r.watch.with(ctx, func(conn *pgx.Conn) (err error) {
		now, err = layout.Load(ctx, conn, r.cfg.Layout.Spec)
		return err
	})
	if err != nil {
		return err
	}
	restarted, err := r.queue.sync(ctx, now)
	for _, name := range restarted {
		r.events.emit(Event{Kind: EventRestarted, Table: name})
	}
	return err
}

// reconcile sets the queue right by the ledgers of this run's databases.
func (r *run) reconcile(ctx context.Context) (lacking int, err error) {
	ledgers := map[string]map[chunkKey]bool{}
	for _, name := range r.cfg.Only {
		err := r.outages.persist(ctx, name, func() error {
			return r.databases[name].with(ctx, func(conn *pgx.Conn) (err error) {
				ledgers[name], err = ledgerOf(ctx, conn, r.cfg.migration())
				return err
			})
		})
		if err != nil {
			return 0, fmt.Errorf("database %s: %w", name, err)
		}
	}
	err = r.outages.persist(ctx, source, func() (err error) {
		lacking, err = r.queue.reconcile(ctx, ledgers)
		return err
	})
	return lacking, err
}

// copy runs the workers until the queue has nothing for them.
func (r *run) copy(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	side, stop := context.WithCancel(ctx)
	r.throttle.look(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.throttle.poll(side) })
	others.Go(func() { r.beats(side) })
	group.Go(func() error { return r.relieve(side) })
	var workers errgroup.Group
	for range r.cfg.Workers {
		workers.Go(func() error {
			w := r.newWorker()
			defer w.close(ctx)
			return w.loop(ctx)
		})
	}
	group.Go(func() error {
		defer stop()
		return workers.Wait()
	})
	err := group.Wait()
	stop()
	others.Wait()
	return err
}

func (r *run) newWorker() *worker {
	w := &worker{run: r, reader: &reader{target: r.cfg.Source, version: r.cfg.signals.version}, writers: map[string]*writer{}}
	if r.replica != nil {
		w.reader.target, w.reader.replica = *r.cfg.Read, r.replica
	}
	for _, d := range r.cfg.Databases {
		w.writers[d.Name] = &writer{target: d, migration: r.cfg.migration(), generation: r.generation, signals: r.cfg.signals}
	}
	return w
}

// beats keeps this process's chunks its own.
func (r *run) beats(ctx context.Context) {
	for sleep(ctx, heartbeatEvery) == nil {
		_ = r.queue.beat(ctx) // a beat that fails is as good as a source that is down: workers see that
	}
}

// route gives how a table's rows go to some databases.
func (r *run) route(t *layout.Table, databases []string) (*route, error) {
	key := fmt.Sprint(t.No, databases)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.routes[key]; known != nil {
		return known, nil
	}
	made, err := newRoute(r.cfg.Layout, t, databases, r.encoding)
	if err != nil {
		return nil, fmt.Errorf("route %s: %w", t.Name(), err)
	}
	r.routes[key] = made
	return made, nil
}
