package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
)

// maxPending bounds the children of moved parents that wait for their own table's
// turn; beyond it only a full pass can tell.
const maxPending = 200_000

// work is the keys that one round compares: those that were left unsettled, those
// that the log names, and the children of rows that took them along.
type work struct {
	v       *Verifier
	b       builder
	forward bool
	log     *server
	window  window
	busy    []*layout.Table
	waiting map[int][]key // unsettled keys and, later, children, by the table's number
	loaded  []unsettled   // what is unsettled on record
	reason  string        // why not all of it can be known; "" if it can
}

// newWork finds what there is to compare for level links, up to a snapshot; without
// one, up to the present.
func (v *Verifier) newWork(ctx context.Context, of *group, to string) (*work, error) {
	l := of.links[0]
	b, err := v.builder(ctx, append([]*server{v.source}, of.databases...))
	if err != nil {
		return nil, err
	}
	w := &work{v: v, b: b, forward: l.direction == store.Forward, log: l.log, window: window{l.from.Snapshot, to}}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		w.loaded, err = v.loadUnsettled(ctx, of.databases)
		w.waiting = byTable(w.loaded)
		return err
	})
	if l.from.Snapshot != to && len(l.tables) > 0 {
		g.Go(func() (err error) {
			var lost bool
			if w.busy, lost, err = v.busy(ctx, l.log, b, l.tables, l.from.Snapshot); lost {
				w.reason = wasRotated
			}
			return err
		})
	}
	if to == "" {
		g.Go(func() (err error) {
			w.window, err = l.log.now(ctx, l.from.Snapshot)
			return err
		})
	}
	return w, g.Wait()
}

// each hands a table's keys on, page by page. Parents come before their children.
func (w *work) each(ctx context.Context, t *layout.Table, take func([]key) error) error {
	if waiting := w.waiting[t.No]; len(waiting) > 0 {
		if err := take(waiting); err != nil {
			return err
		}
		if err := w.follow(ctx, t, waiting); err != nil {
			return err
		}
	}
	if !slices.Contains(w.busy, t) {
		return nil
	}
	reason, err := w.v.entries(ctx, w.log, w.b, t, w.window, func(page []entry) error {
		keys, moved := make([]key, len(page)), []key{}
		for i, e := range page {
			keys[i] = e.key
			if e.moved {
				moved = append(moved, e.key)
			}
		}
		if err := take(keys); err != nil {
			return err
		}
		return w.follow(ctx, t, moved)
	})
	if reason != "" {
		w.reason = reason
	}
	return err
}

// recorded counts a table's keys that were left unsettled.
func (w *work) recorded(t *layout.Table) (n int) {
	for _, u := range w.loaded {
		if u.tableNo == t.No {
			n++
		}
	}
	return n
}

// follow adds the children of rows that may have moved to their tables' keys.
func (w *work) follow(ctx context.Context, t *layout.Table, parents []key) error {
	if !w.forward || len(parents) == 0 || w.b.layout.Spec.Shards.Count == 1 {
		return nil
	}
	keys := make([]string, len(parents))
	for i, k := range parents {
		keys[i] = k[0]
	}
	for _, child := range t.Children {
		var found []key
		err := w.v.onSource(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, childKeys(child), keys)
			if err != nil {
				return err
			}
			found, err = pgx.CollectRows(rows, pgx.RowTo[key])
			return err
		})
		if err != nil {
			return fmt.Errorf("find the rows of %s that moved with %s: %w", child.Name(), t.Name(), err)
		}
		if len(w.waiting[child.No])+len(found) > maxPending {
			w.reason = fmt.Sprintf("more rows of %s moved with their parents than can be looked at one by one", child.Name())
			continue
		}
		w.waiting[child.No] = append(w.waiting[child.No], found...)
	}
	return nil
}

// unsettled is a key on record that could not be judged on a database.
type unsettled struct {
	database string
	tableNo  int
	key      key
	at       time.Time
}

func (v *Verifier) loadUnsettled(ctx context.Context, databases []*server) ([]unsettled, error) {
	names := make([]string, len(databases))
	for i, d := range databases {
		names[i] = d.Name
	}
	var out []unsettled
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		const sql = `SELECT database, table_no, key, at FROM shardctl.verify_unsettled WHERE migration = $1 AND database = ANY ($2) ORDER BY table_no, key`
		rows, err := conn.Query(ctx, sql, v.migration(), names)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (u unsettled, err error) {
			err = r.Scan(&u.database, &u.tableNo, &u.key, &u.at)
			return u, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the unsettled keys: %w", err)
	}
	return out, nil
}

// byTable gives each table's unsettled keys, each once.
func byTable(rows []unsettled) map[int][]key {
	out := map[int][]key{}
	for _, u := range rows {
		keys := out[u.tableNo]
		if len(keys) == 0 || keys[len(keys)-1].id() != u.key.id() {
			out[u.tableNo] = append(keys, u.key)
		}
	}
	return out
}
