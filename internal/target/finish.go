package target

import (
	"context"
	_ "embed" // the query
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed belongings.sql
var belongingsSQL string

// Progress is how far Finish has come on a database.
type Progress struct {
	Database    string
	What        string // the phase: indexes, foreign keys, …
	Object      string // being made
	Done, Total int    // objects of all phases
}

// Finish makes what follows the copy: it is called once a tick newer than the last
// chunk is in. While a table's keys are made its ticks are held off. It may be run
// again after it was killed anywhere: what is there is skipped. Report may be nil.
func Finish(ctx context.Context, source postgres.Querier, conn *pgx.Conn, l *layout.Layout, database string, report func(Progress)) error {
	f, err := newFinishing(ctx, source, conn, l, database, report)
	if err != nil {
		return err
	}
	for _, ph := range f.phases {
		if err := f.makeAll(ctx, ph); err != nil {
			return err
		}
	}
	if err := f.analyze(ctx); err != nil {
		return err
	}
	return f.plan.saveTurns(ctx, conn)
}

// finishing is one run.
type finishing struct {
	plan    *plan
	source  postgres.Querier
	conn    *pgx.Conn
	phases  []phase
	there   map[string]bool
	done    int
	total   int
	reports func(Progress)
}

func newFinishing(ctx context.Context, source postgres.Querier, conn *pgx.Conn, l *layout.Layout, database string, report func(Progress)) (*finishing, error) {
	b, err := blueprint.Read(ctx, source, l)
	if err != nil {
		return nil, err
	}
	r, err := loadRoles(ctx, conn)
	if err != nil {
		return nil, err
	}
	replica, err := mayReplicate(ctx, conn)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(b, database, r, replica)
	if err != nil {
		return nil, err
	}
	if err := p.checkPolicies(); err != nil {
		return nil, err
	}
	f := &finishing{plan: p, source: source, conn: conn, phases: p.finishPhases(), reports: report, total: 1}
	for _, ph := range f.phases {
		f.total += len(ph.units)
	}
	if err := f.handlers(ctx); err != nil {
		return nil, err
	}
	f.there, err = belongings(ctx, conn, l.Spec.Schemas(database))
	return f, err
}

// mayReplicate reports whether the session may take replica role.
func mayReplicate(ctx context.Context, conn *pgx.Conn) (bool, error) {
	errTried := errors.New("tried")
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		return errTried
	})
	switch {
	case errors.Is(err, errTried):
		return true, nil
	case postgres.SQLState(err) == "42501":
		return false, nil
	}
	return false, fmt.Errorf("try replica role: %w", err)
}

// handlers makes the functions of the user's triggers.
func (f *finishing) handlers(ctx context.Context) error {
	var items []item
	for i := range f.plan.b.Handlers {
		items = append(items, f.plan.needItem(&f.plan.b.Handlers[i]))
	}
	ours, err := registered(ctx, f.source, f.plan.migration(), f.plan.database)
	if err != nil {
		return err
	}
	items, err = lacking(ctx, f.conn, items, ours)
	if err != nil {
		return err
	}
	return create(ctx, f.source, f.conn, items)
}

func belongings(ctx context.Context, conn postgres.Querier, schemas []string) (map[string]bool, error) {
	rows, err := conn.Query(ctx, belongingsSQL, schemas)
	if err != nil {
		return nil, fmt.Errorf("look for what is there: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for what is there: %w", err)
	}
	out := make(map[string]bool, len(keys))
	for _, key := range keys {
		out[key] = true
	}
	return out, nil
}

func (f *finishing) report(what, object string) {
	f.done++
	if f.reports != nil {
		f.reports(Progress{Database: f.plan.database, What: what, Object: object, Done: f.done, Total: f.total})
	}
}

// With a schema per logical shard most units are done in a millisecond, and their
// commits would take the longest. So several share a transaction, until batchTime has
// passed or there are batchUnits of them: a tick that waits for a table of theirs does
// not notice, and the server's table of locks does not fill.
const (
	batchTime  = 200 * time.Millisecond
	batchUnits = 50
)

// makeAll makes what lacks of a phase.
func (f *finishing) makeAll(ctx context.Context, ph phase) error {
	for units := ph.units; len(units) > 0; {
		batch := units[:min(batchUnits, len(units))]
		made, err := f.makeBatch(ctx, batch)
		if err != nil {
			return fmt.Errorf("%s: make %s of %s: %w", f.plan.database, ph.what, batch[min(made, len(batch)-1)].what, explained(err))
		}
		for _, u := range batch[:made] {
			f.report(ph.what, u.what)
		}
		units = units[made:]
	}
	return nil
}

// makeBatch makes what lacks of some units in one transaction, and gives how many
// units that were: at least one. Beside an error it is the number of the unit that
// failed.
func (f *finishing) makeBatch(ctx context.Context, units []unit) (made int, err error) {
	lacks := make([][]ddl.Statement, len(units))
	var locks []int
	for i, u := range units {
		if lacks[i] = f.lacking(u); len(lacks[i]) > 0 {
			locks = append(locks, u.locks...)
		}
	}
	all := slices.Concat(lacks...)
	if len(all) == 0 {
		return len(units), nil
	}
	if err := store.Register(ctx, f.source, ddl.Objects(all)...); err != nil {
		return 0, err
	}
	slices.Sort(locks) // the order in which everybody takes them
	locks = slices.Compact(locks)
	err = f.retried(ctx, func() error {
		return postgres.WithTx(ctx, f.conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			made = 0
			for _, no := range locks {
				if err := store.LockTableExclusive(ctx, tx, f.plan.migration(), no); err != nil {
					return err
				}
			}
			start := time.Now()
			for made < len(units) && (made == 0 || time.Since(start) < batchTime) {
				if err := ddl.Exec(ctx, tx, lacks[made]); err != nil {
					return err
				}
				made++
			}
			return nil
		})
	})
	return made, err
}

// lacking are the statements of a unit whose objects are not there.
func (f *finishing) lacking(u unit) (out []ddl.Statement) {
	for _, i := range u.items {
		if i.kind == "" || !f.there[i.key()] {
			out = append(out, i.statements...)
		}
	}
	return out
}

// explained turns rows that break a foreign key into a refusal.
func explained(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23503" {
		return err
	}
	return &migrate.Failure{Code: "fk.violated", Object: postgres.Table(pg.SchemaName, pg.TableName), Message: "rows do not satisfy " + pg.ConstraintName, Exit: migrate.ExitRefused, Err: err,
		Hint: "let catch-up run, look at its quarantine, then run shardctl backfill again"}
}

// lockTries bounds how often a batch gives way to a tick or a session in its way.
const lockTries = 20

// retried runs fn again where somebody was in the way.
func (f *finishing) retried(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		switch postgres.SQLState(err) {
		case "40P01", "55P03": // deadlock, lock not available
		case "23503":
			// A tick that is cut in two leaves children without parents for a moment.
		default:
			return err
		}
		if try == lockTries {
			return err
		}
		if ended := sleep.For(ctx, time.Duration(min(try, 10))*100*time.Millisecond); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// analyze gathers statistics: without them the first queries after a cutover scan.
func (f *finishing) analyze(ctx context.Context) error {
	f.report("statistics", "")
	var tables []string
	for _, t := range f.plan.ordered() {
		for _, loc := range f.plan.locations(t) {
			tables = append(tables, f.plan.at(loc, t.Root()))
		}
	}
	if _, err := f.conn.Exec(ctx, "ANALYZE "+strings.Join(tables, ", ")); err != nil {
		return fmt.Errorf("%s: gather statistics: %w", f.plan.database, err)
	}
	return nil
}
