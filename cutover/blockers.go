package cutover

import (
	"context"
	_ "embed" // the queries
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed blockers.sql
var blockersSQL string

//go:embed readers.sql
var readersSQL string

const endThem = "wait for them or end them, then run the command again"

// gateBlockers names transactions that hold a lock in our way for longer than the
// budget, and prepared ones. A long reader does not hold up the lock and is let be. The
// databases are looked at in both directions: on the way back they are locked, and on the
// way forward a lock there holds up the applier and the pre-lock.
func (w *window) gateBlockers(ctx context.Context) error {
	if err := w.unblocked(ctx, "source", w.side, w.tables.source()); err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		return w.unblocked(ctx, name, conn, w.tables.database(name))
	})
}

func (w *window) unblocked(ctx context.Context, place string, q postgres.Querier, tables []string) error {
	var found []string
	err := w.grace(ctx, func() (busy bool, err error) {
		found, err = texts(ctx, q, "look for blocking transactions", blockersSQL, tables, w.cfg.MaxPause/4)
		return len(found) > 0, err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return migrate.Refuse(string(w.command)+".blocked", place, "open transactions hold locks on migrated tables: "+strings.Join(found, "; "), endThem)
}

func texts(ctx context.Context, q postgres.Querier, what, sql string, args ...any) ([]string, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// lookEvery is how often a gate looks again for what may end by itself.
const lookEvery = 20 * time.Millisecond

// grace looks until nothing is busy, for as long as a PAUSE would wait: what ends within
// that time is in nobody's way.
func (w *window) grace(ctx context.Context, look func() (busy bool, err error)) error {
	for end := time.Now().Add(w.cfg.MaxPause / 3); ; {
		busy, err := look()
		if err != nil || !busy || time.Now().After(end) {
			return err
		}
		if err := sleep.For(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// gatePools names transactions that clients of a router have open for longer than the
// budget, readers too: a PAUSE waits for them all.
func (w *window) gatePools(ctx context.Context) error {
	var found []string
	err := w.grace(ctx, func() (busy bool, err error) {
		found = nil
		for _, r := range w.cfg.Routers {
			h, tells := r.(topology.Holder)
			if !tells {
				continue
			}
			sessions, err := h.Busy(ctx, w.scope())
			if err != nil {
				return false, err
			}
			long, err := w.longRunning(ctx, sessions)
			if err != nil {
				return false, err
			}
			found = append(found, long...)
		}
		return len(found) > 0, nil
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return migrate.Refuse(string(w.command)+".pool_busy", "router", "transactions are open in the pools that are to be held: "+strings.Join(found, "; "), endThem)
}

// longRunning words the sessions whose transaction is older than the budget allows. Those
// of readers are on servers of which the spec has no DSN.
func (w *window) longRunning(ctx context.Context, sessions []topology.Session) (found []string, err error) {
	at := map[*pgx.Conn]map[int32]topology.Session{}
	for _, s := range sessions {
		conn := w.serving(s)
		if conn == nil || s.To == toReader {
			continue
		}
		if at[conn] == nil {
			at[conn] = map[int32]topology.Session{}
		}
		at[conn][int32(s.PID)] = s
	}
	for conn, these := range at {
		pids := make([]int32, 0, len(these))
		for pid := range these {
			pids = append(pids, pid)
		}
		rows, err := conn.Query(ctx, readersSQL, pids, w.cfg.MaxPause/4)
		if err != nil {
			return nil, fmt.Errorf("look for transactions in pools: %w", err)
		}
		var pid int32
		var text string
		_, err = pgx.ForEachRow(rows, []any{&pid, &text}, func() error {
			found = append(found, these[pid].Entry+" of "+these[pid].Router+": "+text)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for transactions in pools: %w", err)
		}
	}
	return found, nil
}

// toReader is the spec's word for an entry that leads to a replica.
const toReader = "reader"

// serving is the session to the server that serves an entry before the switch.
func (w *window) serving(s topology.Session) *pgx.Conn {
	if w.command == Forward {
		return w.side
	}
	for _, name := range w.cfg.databaseNames() {
		for _, shard := range w.cfg.Layout.Spec.Shards.ShardsOf(name) {
			if s.Shard < 0 || s.Shard == shard {
				return w.databases[name]
			}
		}
	}
	return nil
}
