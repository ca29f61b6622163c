package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// grace is how long a session may take to end after its client closed it.
const grace = 2 * time.Second

// leftovers lists, in database postgres, what a test left on its database.
const leftovers = `
SELECT 'session ' || pid || ' (' || application_name || ', ' || coalesce(state, backend_type) || '): ' || left(query, 200)
  FROM pg_stat_activity WHERE datname = $1 AND backend_type IN ('client backend', 'walsender')
UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE database = $1
UNION ALL SELECT 'replication slot ' || slot_name FROM pg_replication_slots WHERE database = $1
UNION ALL SELECT 'subscription ' || subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE datname = $1`

// leave fails the test for what it left on the database, and drops it.
func (db *Database) leave(t testing.TB) {
	t.Helper()
	db.close()
	if own, ok := db.server.(*Cluster); ok && !own.Running() {
		return // the test stopped its own server, which is removed with all on it
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.server.DSN("postgres"))
	if err != nil {
		t.Errorf("pgtest: connect to drop %s: %v", db.Name, err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()

	left, err := waitForNone(ctx, conn, db.Name)
	if err != nil {
		t.Errorf("pgtest: look for what the test left on %s: %v", db.Name, err)
	}
	for _, what := range left {
		t.Errorf("pgtest: the test left on its database %s: %s", db.Name, what)
	}
	if len(left) > 0 {
		db.mend(ctx, t, conn)
	}
	if _, err := conn.Exec(ctx, `DROP DATABASE "`+db.Name+`" WITH (FORCE)`); err != nil {
		t.Errorf("pgtest: drop database %s: %v", db.Name, err)
	}
}

// waitForNone polls until nothing is left or the grace is over.
func waitForNone(ctx context.Context, conn *pgx.Conn, name string) ([]string, error) {
	deadline := time.Now().Add(grace)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		rows, err := conn.Query(ctx, leftovers, name)
		if err != nil {
			return nil, err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
		<-poll.C
	}
}

// mend removes what DROP DATABASE would stop at, so that the shared server does
// not fill up with it. The test has failed already.
func (db *Database) mend(ctx context.Context, t testing.TB, conn *pgx.Conn) {
	t.Helper()
	if err := EndSessions(ctx, conn, "datname = $1", db.Name); err != nil {
		t.Errorf("pgtest: end the sessions of %s: %v", db.Name, err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1`, db.Name); err != nil {
		t.Errorf("pgtest: drop the slots of %s: %v", db.Name, err)
	}
	rows, _ := conn.Query(ctx, `SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = $1`, db.Name)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Errorf("pgtest: list the prepared transactions of %s: %v", db.Name, err)
	}
	if len(statements) == 0 {
		return
	}
	inside, err := pgx.Connect(ctx, db.DSN())
	if err != nil {
		t.Errorf("pgtest: connect to %s: %v", db.Name, err)
		return
	}
	defer func() { _ = inside.Close(ctx) }()
	for _, statement := range statements {
		if _, err := inside.Exec(ctx, statement); err != nil {
			t.Errorf("pgtest: %s: %v", statement, err)
		}
	}
}
