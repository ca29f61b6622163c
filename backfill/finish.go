package backfill

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
)

// Finisher makes what follows the copy on a database: other uniques, indexes,
// foreign keys, triggers, grants, statistics. It keeps a table's ticks away while it
// works on the table, and may be called again.
type Finisher interface {
	Finish(ctx context.Context, database string) error
}

// finish lets a database catch up with the last chunk, and then finishes it, unless it has
// lost chunks: keys are not to be judged by half a copy.
func (r *run) finish(ctx context.Context, database string) error {
	if r.cfg.Finisher == nil {
		return nil
	}
	if err := r.awaitTick(ctx, database); err != nil {
		return err
	}
	if missing, err := r.missing(ctx, database); err != nil || missing > 0 {
		return err
	}
	r.events.emit(Event{Kind: EventFinishing, Database: database})
	if err := r.cfg.Finisher.Finish(ctx, database); err != nil {
		return fmt.Errorf("finish %s: %w", database, err)
	}
	r.events.emit(Event{Kind: EventFinished, Database: database})
	return nil
}

// awaitTick waits until a database has applied a tick that is newer than every
// chunk's snapshot, or lacks nothing that the logs hold. Before that, rows of
// different snapshots stand side by side, and may break what is to be built. An error,
// as of a failover, is for the caller, who begins again with the keys.
func (r *run) awaitTick(ctx context.Context, database string) error {
	var after string
	err := r.watch.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&after)
	})
	if err != nil {
		return fmt.Errorf("read the source's snapshot: %w", err)
	}
	shown := false
	for {
		there, err := r.caughtUp(ctx, database, after)
		if err != nil {
			return err
		}
		r.outages.over(database)
		if there {
			return nil
		}
		if !shown {
			shown = true
			r.events.emit(Event{Kind: EventWaiting, Database: database, Message: "for catch-up to pass the last chunk; is `shardctl catchup` running?"})
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// newer reports whether all that a snapshot ($2) sees is seen by a later one ($1).
const newer = `SELECT pg_snapshot_xmax($1::text::pg_snapshot) >= pg_snapshot_xmax($2::text::pg_snapshot) AND NOT EXISTS (
  SELECT FROM pg_snapshot_xip($1::text::pg_snapshot) x WHERE x < pg_snapshot_xmax($2::text::pg_snapshot) AND x NOT IN (SELECT pg_snapshot_xip($2::text::pg_snapshot)))`

func (r *run) caughtUp(ctx context.Context, database, after string) (there bool, err error) {
	p, err := r.position(ctx, database)
	if err != nil {
		return false, err
	}
	err = r.watch.with(ctx, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, newer, p.Snapshot, after).Scan(&there); err != nil || there {
			return err
		}
		lag, err := lagOf(ctx, conn, pendingSQL(logs(r.cfg.Layout)), p, r.cfg.migration())
		there = lag == 0
		return err
	})
	return there, err
}

func (r *run) position(ctx context.Context, database string) (p store.Position, err error) {
	err = r.databases[database].with(ctx, func(conn *pgx.Conn) error {
		p, err = store.LoadPosition(ctx, conn, r.cfg.migration(), database, store.Forward)
		return err
	})
	return p, err
}
