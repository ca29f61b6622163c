package localpg

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestStandbyFollowsUntilPromoted: it has what the primary had, and once it is cut off
// and promoted only that.
func TestStandbyFollowsUntilPromoted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary, err := NewCluster(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	standby, err := NewStandby(ctx, primary)
	if err != nil {
		t.Fatal(errors.Join(err, primary.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(standby.Close(), primary.Close()); err != nil {
			t.Error(err)
		}
	})
	on := func(c *Cluster, sql string) (text string) {
		t.Helper()
		conn, err := pgx.Connect(ctx, c.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if len(lines) > 0 {
			text = lines[0]
		}
		return text
	}
	on(primary, "CREATE TABLE t (a text)")
	on(primary, "INSERT INTO t VALUES ('before')")
	for on(standby, "SELECT coalesce((SELECT 'yes' FROM pg_stat_wal_receiver WHERE status = 'streaming'), 'no')") != "yes" {
	}
	at := on(primary, "SELECT pg_current_wal_lsn()::text")
	for on(standby, "SELECT (pg_last_wal_replay_lsn() >= '"+at+"')::text") != "true" {
	}
	on(standby, "ALTER SYSTEM SET primary_conninfo = ''")
	on(standby, "SELECT pg_reload_conf()::text")
	for on(standby, "SELECT count(*)::text FROM pg_stat_wal_receiver") != "0" {
	}
	on(primary, "INSERT INTO t VALUES ('after')")
	if err := primary.Stop(ctx, "kill"); err != nil {
		t.Fatal(err)
	}
	if got := on(standby, "SELECT pg_promote()::text"); got != "true" {
		t.Fatalf("promote: %s", got)
	}
	if got := on(standby, "SELECT string_agg(a, ',') FROM t"); got != "before" {
		t.Errorf("the standby has %q", got)
	}
}
