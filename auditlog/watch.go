package auditlog

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed watch.sql
var watchSQL string

// fingerprint is what a captured table was like at one moment. All but the columns
// are hashes, to be told apart, not understood.
type fingerprint struct {
	Relations  string            `json:"relations"`  // identity and names of the tables themselves
	Triggers   string            `json:"triggers"`   // ours on them and on all below: number, last change, state
	Partitions string            `json:"partitions"` // what is attached where
	Files      string            `json:"files"`      // changes with a rewrite or a TRUNCATE
	Off        int               `json:"off"`        // triggers of ours that do not fire always
	Key        string            `json:"key"`        // primary key; on the source
	Columns    map[string]string `json:"columns"`    // name to type and what else a copy depends on
}

// Watch notices DDL on captured tables that the log cannot have: a trigger that
// was off for a while, a partition that came or went, a column that changed.
type Watch struct {
	side    Side
	numbers []int32
	schemas []string
	names   []string
	files   map[int]string // last seen, by table number
}

// Watched is what a check found besides drift, which is an error.
type Watched struct {
	Rewritten []int // numbers of tables whose storage was replaced since the last check
}

// NewWatch prepares the watch of one side.
func NewWatch(side Side) *Watch {
	w := &Watch{side: side, files: map[int]string{}}
	for _, t := range side.Tables() {
		for _, root := range side.roots(t) {
			w.numbers, w.schemas, w.names = append(w.numbers, int32(t.No)), append(w.schemas, root.Schema), append(w.names, root.Name)
		}
	}
	return w
}

// Check compares the captured tables with what was accepted last, as q's snapshot
// sees both. A difference by which writes or values may be lost is a
// *migrate.Failure (exit 4). A table that was only rewritten is reported: its log
// is whole, but a copy by physical order must start over.
func (w *Watch) Check(ctx context.Context, q postgres.Querier) (Watched, error) {
	tables, err := w.read(ctx, q)
	if err != nil {
		return Watched{}, err
	}
	var out Watched
	var drift []string
	for _, t := range tables {
		if t.accepted == nil {
			return Watched{}, migrate.Refuse("capture.not_installed", w.side.Layout.Tables[t.no-1].Name(), "its writes are not captured on "+w.side.Name(), "run shardctl install")
		}
		drift = append(drift, w.drift(t)...)
		last, seen := w.files[t.no]
		if !seen {
			last = t.accepted.Files
		}
		if last != t.now.Files {
			out.Rewritten = append(out.Rewritten, t.no)
		}
		w.files[t.no] = t.now.Files
	}
	if len(drift) > 0 {
		return Watched{}, w.refuse(drift)
	}
	return out, nil
}

// watchedTable is one table as it is and as it was accepted.
type watchedTable struct {
	no       int
	now      fingerprint
	accepted *fingerprint
}

func (w *Watch) read(ctx context.Context, q postgres.Querier) ([]watchedTable, error) {
	m := w.side.migration()
	rows, err := q.Query(ctx, watchSQL, w.numbers, w.schemas, w.names, logschema.CaptureTrigger(m), logschema.CaptureTruncateTrigger(m), m, w.side.onSource())
	if err != nil {
		return nil, fmt.Errorf("watch captured tables on %s: %w", w.side.Name(), err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (watchedTable, error) {
		var t watchedTable
		var now, accepted []byte
		if err := r.Scan(&t.no, &now, &accepted); err != nil {
			return t, err
		}
		if accepted != nil {
			t.accepted = &fingerprint{}
			if err := json.Unmarshal(accepted, t.accepted); err != nil {
				return t, err
			}
		}
		return t, json.Unmarshal(now, &t.now)
	})
	if err != nil {
		return nil, fmt.Errorf("watch captured tables on %s: %w", w.side.Name(), err)
	}
	return out, nil
}

// accepted tells which tables have been accepted before. Drift of one of them is
// refused, unless it is to be accepted now.
func (w *Watch) accepted(ctx context.Context, q postgres.Querier, anew bool) (map[int]bool, error) {
	tables, err := w.read(ctx, q)
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	var drift []string
	for _, t := range tables {
		if t.accepted == nil {
			continue
		}
		out[t.no] = true
		drift = append(drift, w.drift(t)...)
	}
	if len(drift) > 0 && !anew {
		return nil, w.refuse(drift)
	}
	return out, nil
}

// drift words how a table differs from what was accepted.
func (w *Watch) drift(t watchedTable) []string {
	changes := t.now.changes(*t.accepted)
	for i, change := range changes {
		changes[i] = w.side.Layout.Tables[t.no-1].Name() + ": " + change
	}
	return changes
}

func (w *Watch) refuse(drift []string) error {
	return migrate.Refuse("capture.ddl", strings.Join(drift, "; "), "DDL under way on "+w.side.Name(),
		"undo the change and run the command again; or apply it on all sides, then run shardctl doctor --acknowledge-ddl")
}

// accept stores what a table is like now. In a transaction that holds the table's
// lock nothing slips in between; without one, what does shows at the next check.
func (w *Watch) accept(ctx context.Context, q postgres.Querier, t *layout.Table) error {
	tables, err := w.read(ctx, q)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(tables, func(wt watchedTable) bool { return wt.no == t.No })
	print, err := json.Marshal(tables[i].now)
	if err != nil {
		return fmt.Errorf("accept %s: %w", t.Name(), err)
	}
	const sql = `INSERT INTO shardctl.fingerprint (migration, table_no, fingerprint) VALUES ($1, $2, $3)
	ON CONFLICT (migration, table_no) DO UPDATE SET fingerprint = excluded.fingerprint, accepted_at = clock_timestamp()`
	if _, err := q.Exec(ctx, sql, w.side.migration(), t.No, print); err != nil {
		return fmt.Errorf("accept %s: %w", t.Name(), err)
	}
	return nil
}

// changes words what differs from the accepted fingerprint, for a person.
func (f fingerprint) changes(accepted fingerprint) []string {
	var out []string
	if f.Relations != accepted.Relations {
		out = append(out, "the table was renamed, dropped or replaced by another")
	}
	for _, name := range slices.Sorted(maps.Keys(accepted.Columns)) {
		was, is := accepted.Columns[name], f.Columns[name]
		switch {
		case is == "":
			out = append(out, fmt.Sprintf("column %s (%s) is gone", name, was))
		case is != was:
			out = append(out, fmt.Sprintf("column %s was %s and is %s", name, was, is))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Columns)) {
		if accepted.Columns[name] == "" {
			out = append(out, fmt.Sprintf("column %s (%s) is new", name, f.Columns[name]))
		}
	}
	if f.Key != accepted.Key {
		out = append(out, fmt.Sprintf("the primary key was (%s) and is (%s)", accepted.Key, f.Key))
	}
	if f.Partitions != accepted.Partitions {
		return append(out, "partitions were attached or detached")
	}
	switch {
	case f.Off > 0:
		out = append(out, "a capture trigger is disabled: writes are being lost")
	case f.Triggers != accepted.Triggers:
		out = append(out, "a capture trigger was dropped, or disabled for a while: writes may be lost")
	}
	return out
}
