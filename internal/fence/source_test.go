package fence_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// raise enables or disables fences as a switch does.
func raise(t *testing.T, conn *pgx.Conn, l *layout.Layout, how func(context.Context, postgres.Querier, *layout.Layout, ...string) error, databases ...string) {
	t.Helper()
	err := postgres.WithTx(context.Background(), conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return how(context.Background(), tx, l, databases...)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// filled has a block, a comment and a reaction of each database: 1 and 2001 are
// the first database's, 2 the second's.
func filled(t *testing.T) (*pgtest.Database, *pgx.Conn, *layout.Layout, int, int) {
	t.Helper()
	db, conn, l := fenced(t, spec("s_%d"))
	mine, other := keyOn(t, conn, l, "db'0"), keyOn(t, conn, l, "db1")
	db.Exec(t, fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (1, %[1]d), (2001, %[1]d), (2, %[2]d), (3, %[2]d);
		INSERT INTO comment VALUES (1, 1), (2, 2), (3, 3); INSERT INTO react VALUES (1, 1), (2, 2), (9, 999)`, mine, other))
	return db, conn, l, mine, other
}

func TestSourceFenceRefusesOnlyItsDatabase(t *testing.T) {
	t.Parallel()
	db, conn, l, mine, other := filled(t)
	db.Exec(t, fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d WHERE id = 1`, mine)) // dormant
	raise(t, conn, l, fence.Enable, "db'0")
	db.Exec(t, "CREATE ROLE fence_app; GRANT USAGE ON SCHEMA public TO fence_app; GRANT ALL ON ALL TABLES IN SCHEMA public TO fence_app")
	t.Cleanup(func() { db.Exec(t, "DROP OWNED BY fence_app; DROP ROLE fence_app") })
	app := "SET ROLE fence_app; SET search_path = pg_temp, public"

	refused := []string{
		fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (10, %d)`, mine),
		fmt.Sprintf(`INSERT INTO b1a VALUES (10, %d)`, mine),
		fmt.Sprintf(`COPY b2 FROM PROGRAM 'echo 2010,%d' WITH (FORMAT csv)`, mine),
		`UPDATE "Bl""ock" SET id = id WHERE id = 1`,
		`UPDATE b2 SET id = id WHERE id = 2001`,
		`DELETE FROM "Bl""ock" WHERE id = 2001`,
		fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d WHERE id = 2`, mine),  // would leave for it
		fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d WHERE id = 1`, other), // would leave from it
		`INSERT INTO comment VALUES (10, 1)`, `UPDATE comment SET n = 1 WHERE id = 1`, `DELETE FROM comment WHERE id = 1`,
		`UPDATE comment SET block_id = 1 WHERE id = 2`, `UPDATE comment SET block_id = 2 WHERE id = 1`,
		`INSERT INTO react VALUES (10, 1)`, `DELETE FROM react WHERE id = 1`,
		`TRUNCATE react`, `TRUNCATE "Bl""ock" CASCADE`, `TRUNCATE b1a CASCADE`, `TRUNCATE b1 CASCADE`,
		`DELETE FROM "Bl""ock" WHERE id = 1`, // the cascade would be refused as well
	}
	for _, sql := range refused {
		setup := app
		if sql[:4] == "COPY" {
			setup = "SET search_path = public"
		}
		expect(t, db, setup, sql, fence.Refused, "migration m", "db'0", "epoch 7")
	}
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (11, %d)`, other),
		`INSERT INTO comment VALUES (11, 2)`, `UPDATE comment SET n = 5 WHERE id = 2`, `INSERT INTO react VALUES (11, 2)`,
		`UPDATE "Bl""ock" SET id = 1002 WHERE id = 2`, // moves between partitions, and its comments with it
		`DELETE FROM "Bl""ock" WHERE id = 3`,          // its comments go by cascade, when the parent is gone
		`DELETE FROM react WHERE id = 9`,              // an orphan
		`INSERT INTO plan VALUES (1)`, `TRUNCATE plan`,
	} {
		expect(t, db, app, sql, "")
	}
	if n, err := fence.Hits(context.Background(), conn, "m"); err != nil || n != int64(len(refused)) {
		t.Errorf("%d hits (%v), %d writes were refused", n, err, len(refused))
	}
	raise(t, conn, l, fence.Disable, "db'0")
	expect(t, db, app, refused[0], "")
}

func TestSourceFenceOnRowsWithoutAHome(t *testing.T) {
	t.Parallel()
	db, conn, l, _, _ := filled(t)
	raise(t, conn, l, fence.Enable, "db1")
	expect(t, db, "", `INSERT INTO "Bl""ock" VALUES (12, NULL)`, fence.Refused, "no key")
	expect(t, db, "", `INSERT INTO comment VALUES (12, NULL)`, fence.Refused, "no key")
	expect(t, db, "", `INSERT INTO react VALUES (12, 777)`, fence.Refused, "parent")
	expect(t, db, "", `UPDATE react SET comment_id = 998 WHERE id = 9`, fence.Refused, "parent")
}

// TestSourceFenceAndPolicies: rows without a key are where the spec puts them.
func TestSourceFenceAndPolicies(t *testing.T) {
	t.Parallel()
	s := spec("s_%d")
	s.Tables[0].NullKeys = migrate.Stray{Policy: "shard", Shard: 2} // of db1
	s.Tables[1].NullKeys, s.Tables[1].Orphans = s.Tables[0].NullKeys, s.Tables[0].NullKeys
	db, conn, l := fenced(t, s)
	keyless, child := `INSERT INTO "Bl""ock" SELECT count(*) + 1 FROM "Bl""ock"`, `INSERT INTO comment SELECT count(*) + 1 FROM comment`
	raise(t, conn, l, fence.Enable, "db'0")
	expect(t, db, "", keyless, "")
	expect(t, db, "", child, "")
	expect(t, db, "", `INSERT INTO comment VALUES (2, 1)`, "") // follows its parent
	raise(t, conn, l, fence.Enable, "db1")
	expect(t, db, "", keyless, fence.Refused, "db1")
	expect(t, db, "", child, fence.Refused, "db1")
	expect(t, db, "", `INSERT INTO comment VALUES (3, 1)`, fence.Refused, "db1")
}

// TestSourceFenceLeavesSkippedRows: rows that stay behind are the source's.
func TestSourceFenceLeavesSkippedRows(t *testing.T) {
	t.Parallel()
	s := spec("s_%d")
	s.Tables[0].NullKeys = migrate.Stray{Policy: "skip"}
	db, conn, l := fenced(t, s)
	raise(t, conn, l, fence.Enable, "db'0", "db1")
	expect(t, db, "", `INSERT INTO "Bl""ock" VALUES (1, NULL)`, "")
	expect(t, db, "", fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d`, keyOn(t, conn, l, "db1")), fence.Refused)
}

func TestSourceFenceAndSessionSettings(t *testing.T) {
	t.Parallel()
	db, conn, l, mine, _ := filled(t)
	raise(t, conn, l, fence.Enable, "db'0", "db1")
	sql := fmt.Sprintf(`INSERT INTO "Bl""ock" VALUES (20, %d)`, mine)
	expect(t, db, "SET session_replication_role = replica", sql, fence.Refused)
	expect(t, db, "SET shardctl.applier = 'another'", sql, fence.Refused)
	expect(t, db, "SET shardctl.applier = 'm'", sql, "")
	expect(t, db, "SET shardctl.applier = 'm'", "TRUNCATE react", "")
}

// TestFencesDoNotReadOwnership: a writer whose snapshot is older than the switch
// still sees the old owner, and must be refused all the same.
func TestFencesDoNotReadOwnership(t *testing.T) {
	t.Parallel()
	db, conn, l, mine, _ := filled(t)
	writer := db.Connect(t)
	ctx := context.Background()
	tx, err := writer.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var owner string
	if err := tx.QueryRow(ctx, "SELECT owner FROM shardctl.ownership WHERE database = $1", "db'0").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	raise(t, conn, l, fence.Enable, "db'0")
	db.Exec(t, `UPDATE shardctl.ownership SET owner = database, epoch = 8`)
	if _, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO public."Bl""ock" VALUES (30, %d)`, mine)); postgres.SQLState(err) != fence.Refused {
		t.Errorf("a writer with an older snapshot: %v", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFencesDoNotDeadlockSiblings: two sessions each add a child of one parent,
// then update it; without a fence they queue.
func TestFencesDoNotDeadlockSiblings(t *testing.T) {
	t.Parallel()
	db, conn, l, _, _ := filled(t)
	db.Exec(t, `ALTER TABLE "Bl""ock" ADD hot int`)
	raise(t, conn, l, fence.Enable, "db'0")
	ctx := context.Background()
	var txs [2]pgx.Tx
	for i := range txs {
		tx, err := db.Connect(t).Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		txs[i] = tx
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '5s'"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO comment VALUES (%d, 2)`, 40+i)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	update := `UPDATE "Bl""ock" SET hot = 1 WHERE id = 2`
	if _, err := txs[0].Exec(ctx, update); err != nil {
		t.Fatalf("the first session's update: %v", err)
	}
	go func() {
		_, err := txs[1].Exec(ctx, update)
		done <- err
	}()
	if err := txs[0].Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the second session's update: %v", err)
	}
	if err := txs[1].Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestAParentCannotLeaveWhileAChildIsJudged: the fence holds the parent that it
// judged by.
func TestAParentCannotLeaveWhileAChildIsJudged(t *testing.T) {
	t.Parallel()
	db, conn, l, mine, _ := filled(t)
	db.Exec(t, "ALTER TABLE comment DROP CONSTRAINT comment_block_id_fkey")
	raise(t, conn, l, fence.Enable, "db'0")
	ctx := context.Background()
	tx, err := db.Connect(t).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "INSERT INTO comment VALUES (50, 2)"); err != nil {
		t.Fatal(err)
	}
	expect(t, db, "SET lock_timeout = 50", `DELETE FROM "Bl""ock" WHERE id = 2`, "55P03")
	expect(t, db, "SET lock_timeout = 50", fmt.Sprintf(`UPDATE "Bl""ock" SET "Ws" = %d WHERE id = 2`, mine), fence.Refused)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestSourceStates(t *testing.T) {
	t.Parallel()
	db, conn, l, _, _ := filled(t)
	states := func(first, second fence.State) {
		t.Helper()
		got, err := fence.SourceStates(context.Background(), conn, l)
		if err != nil || got["db'0"] != first || got["db1"] != second {
			t.Errorf("states %v (%v), want %s and %s", got, err, first, second)
		}
	}
	states(fence.Disabled, fence.Disabled)
	raise(t, conn, l, fence.Enable, "db1")
	states(fence.Disabled, fence.Enabled)
	db.Exec(t, `ALTER TABLE b1a DISABLE TRIGGER `+logschema.FenceTrigger("m", 2))
	states(fence.Disabled, fence.Mixed)
	db.Exec(t, `CREATE TABLE b3 PARTITION OF "Bl""ock" FOR VALUES FROM (5000) TO (6000)`) // lacks what TRUNCATE needs
	states(fence.Mixed, fence.Mixed)
	err := postgres.WithTx(context.Background(), conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return fence.Enable(context.Background(), tx, l, "db'0")
	})
	if err == nil {
		t.Error("a fence that is not whole was raised")
	}
}

// TestDefinitionsAgain: install may run again; what is there, also an enabled
// fence, stays as it is.
func TestDefinitionsAgain(t *testing.T) {
	t.Parallel()
	_, conn, l, _, _ := filled(t)
	raise(t, conn, l, fence.Enable, "db'0")
	all := append(fence.SourceDDL(l, "db'0"), fence.SourceDDL(l, "db1")[1:]...)
	lacking, err := ddl.LackingTriggers(context.Background(), conn, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := ddl.Create(context.Background(), conn, conn, lacking); err != nil {
		t.Fatal(err)
	}
	got, err := fence.SourceStates(context.Background(), conn, l)
	if err != nil || got["db'0"] != fence.Enabled || got["db1"] != fence.Disabled {
		t.Errorf("states %v (%v)", got, err)
	}
}
