package cutover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// tables are the migrated tables as a switch turns them.
type tables struct{ l *layout.Layout }

func newTables(l *layout.Layout) tables { return tables{l: l} }

// source lists what a switch locks on the source.
func (t tables) source() []string { return fence.SourceTables(t.l) }

// sourceOIDs are the sharded tables, whose sequences get lanes. An everywhere
// table's sequence stays the source's.
func (t tables) sourceOIDs() (out []uint32) {
	for _, table := range t.l.Tables {
		if !table.Everywhere() {
			out = append(out, table.Source.OID)
		}
	}
	return out
}

// database lists what a rollback locks on a database.
func (t tables) database(name string) []string { return fence.DatabaseTables(t.l, name) }

// closed reports whether a database refuses the application's writes.
func (t tables) closed(ctx context.Context, q postgres.Querier, name string) (bool, error) {
	state, err := fence.ReadDatabase(ctx, q, t.l, name)
	if err != nil {
		return false, err
	}
	switch state.Closed {
	case fence.Enabled:
		return true, nil
	case fence.Disabled:
		return false, nil
	}
	return false, migrate.Refuse("fence.database", name, fmt.Sprintf("its closed fence is %s: neither up nor down on every table", state.Closed),
		"shardctl doctor --repair raises it; "+startAnew(name))
}

// startAnew is the way out where triggers on a database were dropped.
func startAnew(name string) string {
	return "where triggers were dropped, shardctl prepare --database " + name + " starts it anew while it owns nothing"
}

// guarded reports whether databases have placement guards.
func (t tables) guarded() bool {
	return slices.ContainsFunc(t.l.Tables, func(table *layout.Table) bool { return fence.Guarded(t.l, table) })
}

// namingTime is what is kept of the time that is left for asking who held up a lock: a
// quarter, within bounds.
func namingTime(left time.Duration) time.Duration {
	return min(max(left/4, 200*time.Millisecond), time.Second)
}

// upgrade takes the lock that waits for writers in flight, within the context's time.
func upgrade(ctx context.Context, tx pgx.Tx, tables []string) error {
	deadline, _ := ctx.Deadline()
	return postgres.UpgradeLock(ctx, tx, "SHARE ROW EXCLUSIVE", tables, deadline.Add(-namingTime(time.Until(deadline))))
}

func (t tables) closeSource(ctx context.Context, tx pgx.Tx, databases []string) error {
	return fence.Enable(ctx, tx, t.l, databases...)
}

func (t tables) openSource(ctx context.Context, tx pgx.Tx, databases []string) error {
	return fence.Disable(ctx, tx, t.l, databases...)
}

func (t tables) openDatabase(ctx context.Context, tx pgx.Tx, name string) error {
	return target.Open(ctx, tx, t.l, name)
}

func (t tables) closeDatabase(ctx context.Context, tx pgx.Tx, name string) error {
	return target.Close(ctx, tx, t.l, name)
}

// targetSequence is the databases' counterpart of a source's sequence.
func (t tables) targetSequence(s sequence) sequence {
	s.Schema, s.Name = target.SequenceName(t.l, s.Schema, s.Name)
	return s
}
