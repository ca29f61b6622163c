package pgbouncer_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology"
)

func testBusyNamesTheServersOfOpenTransactions(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	cfg, err := pgx.ParseConfig(w.poolers[0].DSN("app_001"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	client, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(t.Context()) }()
	tx, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pid uint32
	if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		scope topology.Scope
		want  int
	}{{nil, 1}, {topology.Scope{1}, 1}, {topology.Scope{0}, 0}} {
		got, err := r.Busy(t.Context(), c.scope)
		if err != nil || len(got) != c.want || c.want == 1 && (got[0].PID != pid || got[0].Entry != "app_001" || got[0].Shard != 1 || got[0].To != "primary") {
			t.Errorf("scope %v: %+v, %v; the transaction is of process %d", c.scope, got, err, pid)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Busy(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("after its end: %+v, %v", got, err)
	}
}
