package backfill

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
)

// prepare makes plans and settles modes, and gives the number of chunks that lack.
func (r *run) prepare(ctx context.Context) (lacking int, err error) {
	if err := r.replan(ctx); err != nil {
		return 0, err
	}
	for _, name := range r.cfg.Only {
		if err := r.settle(ctx, name); err != nil {
			return 0, err
		}
	}
	if err := r.heldPosition(ctx); err != nil {
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
