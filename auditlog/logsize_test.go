package auditlog_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func TestTheHardLimitStopsCaptureWithAGap(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock, databases: 1})
	side, conn := auditlog.SourceSide(s.layout), s.connect(t, s.env().Source)
	s.spec.Capture = migrate.Capture{LogSoftLimit: 100_000, LogHardLimit: 400_000}
	look := func(want auditlog.LogSize) {
		t.Helper()
		got, err := side.CheckSize(t.Context(), conn)
		must(t, err)
		if got.Soft != want.Soft || got.Stopped != want.Stopped {
			t.Errorf("%+v, wanted %+v", got, want)
		}
	}
	look(auditlog.LogSize{})
	writer := s.source.Connect(t)
	runSQL(t, writer, "INSERT INTO block SELECT g, 1 FROM generate_series(1, 1500) g")
	look(auditlog.LogSize{Soft: true})
	runSQL(t, writer, "INSERT INTO block SELECT g, 1 FROM generate_series(1501, 6000) g")
	look(auditlog.LogSize{Soft: true, Stopped: true})
	runSQL(t, writer, "INSERT INTO block VALUES (0, 1); TRUNCATE block")
	wantRows(t, "captured after the stop", s.source.Rows(t, "SELECT count(*) FROM shardctl.m_log_1_0"), "6000")
	gaps, err := auditlog.LoadGaps(t.Context(), conn, "m")
	must(t, err)
	if len(gaps) != 1 || gaps[0].Database != "db0" || gaps[0].Direction != store.Forward {
		t.Errorf("gaps %+v", gaps)
	}
	look(auditlog.LogSize{Soft: true, Stopped: true}) // again

	// Rotation must not start it again, install refuses to, and goes on once the copy has started over.
	_, err = side.Rotate(t.Context(), conn, []string{s.source.Value(t, "SELECT pg_current_snapshot()")}, 1)
	must(t, err)
	failure(t, auditlog.Install(t.Context(), s.env()), "gap", "db0")
	must(t, auditlog.ClearGap(t.Context(), conn, "m", "db0", store.Forward))
	s.install(t)
	runSQL(t, writer, "INSERT INTO block VALUES (1, 1)")
	wantRows(t, "captured again", s.source.Rows(t, "SELECT n1 FROM shardctl.m_log_1_0 WHERE n1 = 1 AND xid = (SELECT max(xid::text::bigint)::text::xid8 FROM shardctl.m_log_1_0)"), "1")
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: blockDDL, tables: blocks()})
	side, conn := auditlog.SourceSide(s.layout), s.connect(t, s.env().Source)
	s.source.Exec(t, "INSERT INTO block VALUES (1, 1)")
	position := s.source.Value(t, "SELECT pg_current_snapshot()")
	s.source.Exec(t, "INSERT INTO block VALUES (2, 1); INSERT INTO plan VALUES (1, 'a'); INSERT INTO comment VALUES (1, 1)")
	for _, c := range []struct {
		position string
		limit    int64
		want     auditlog.Backlog
	}{
		{position, 100, auditlog.Backlog{Entries: 3}}, {"1:1:", 100, auditlog.Backlog{Entries: 4}}, {"1:1:", 2, auditlog.Backlog{Entries: 2, AtLeast: true}},
	} {
		got, err := side.Backlog(t.Context(), conn, c.position, c.limit)
		must(t, err)
		if got != c.want {
			t.Errorf("%s up to %d: %+v, wanted %+v", c.position, c.limit, got, c.want)
		}
	}
	bytes, err := side.LogBytes(t.Context(), conn)
	must(t, err)
	if want := s.source.Value(t, "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'm\\_log%'"); want != sprintf("%d", bytes) {
		t.Errorf("%d bytes, wanted %s", bytes, want)
	}
}

func TestRereadEntriesGoIntoTheOwnersLog(t *testing.T) {
	t.Parallel()
	ddl := "CREATE TABLE public.block (a char(3), b timestamptz, workspace_id bigint NOT NULL, PRIMARY KEY (b, a)); CREATE TABLE public.plan (id int PRIMARY KEY)"
	s := installed(t, stageSpec{ddl: ddl, databases: 1, tables: []migrate.Table{ownKey("block", "workspace_id"), {Name: migrate.TableName{Schema: "public", Name: "plan"}, Everywhere: true}}})
	source, db := s.connect(t, s.env().Source), s.connect(t, s.env().Databases[0])
	forward, reverse := auditlog.SourceSide(s.layout), auditlog.DatabaseSide(s.layout, "db0")
	key := []auditlog.Reread{{Key: []string{"2026-01-02 03:04:05+00", "ab"}}, {Key: []string{"infinity", "c"}, Location: "shard_1"}}
	add := func(side auditlog.Side, conn *pgx.Conn, table int, keys ...auditlog.Reread) error {
		return postgres.WithTx(t.Context(), conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			return side.AppendReread(t.Context(), tx, s.layout.Tables[table-1], "db0", keys)
		})
	}
	must(t, add(forward, source, 1, key[0]))
	must(t, add(forward, source, 2, auditlog.Reread{Key: []string{"7"}}))
	failure(t, add(reverse, db, 1, key[1]), "repair.owner", "db0")
	wantRows(t, "forward", logOf(t, s.source, 1, "op, n1 AT TIME ZONE 'UTC', n2, okey, loc"), "R|2026-01-02 03:04:05|ab|NULL|NULL")
	wantRows(t, "everywhere", logOf(t, s.source, 2, "op, n1"), "R|7")

	s.source.Exec(t, "UPDATE shardctl.ownership SET owner = 'db0'")
	s.dbs[0].Exec(t, "UPDATE shardctl.control SET owner = 'db0'")
	failure(t, add(forward, source, 1, key[0]), "repair.owner")
	must(t, add(forward, source, 2, auditlog.Reread{Key: []string{"8"}}))
	must(t, add(reverse, db, 1, key[1]))
	wantRows(t, "reverse", logOf(t, s.dbs[0], 1, "op, n1, n2, loc"), "R|infinity|c|shard_1")
	if err := add(reverse, db, 1, auditlog.Reread{Key: []string{"x"}}); err == nil {
		t.Error("a key with too few values was taken")
	}
}

// Whoever changes the owner waits for a repair that is under way.
func TestARepairHoldsTheOwner(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: oneBlock})
	source, other := s.connect(t, s.env().Source), s.connect(t, s.env().Source)
	tx, err := source.Begin(t.Context())
	must(t, err)
	must(t, auditlog.SourceSide(s.layout).AppendReread(t.Context(), tx, s.layout.Tables[0], "db0", []auditlog.Reread{{Key: []string{"1"}}}))
	runSQL(t, other, "SET statement_timeout = 200")
	err = postgres.WithTx(t.Context(), other, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := store.ChangeOwnership(t.Context(), tx, "m", "db0")
		return err
	})
	if postgres.SQLState(err) != "57014" {
		t.Errorf("the owner was changed under a repair: %v", err)
	}
	must(t, tx.Commit(t.Context()))
}
