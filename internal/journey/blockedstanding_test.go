package journey

import (
	"context"
	"strconv"
	"syscall"

	"github.com/shardctl/shardctl/internal/binary"
)

// standing is what has to be there for a switch, and what must not.
var standing = []obstacle{
	{"a key in quarantine", 4, []string{"db0", "public.block", "only_here"}, func(s *siege) ([]string, func()) {
		s.w.exec(s.w.databaseDSN(0), "ALTER TABLE shard_000.block ADD CONSTRAINT only_here CHECK (version <> 4711)")
		s.w.exec(s.w.sourceDSN(), "INSERT INTO public.block (id, workspace_id, doc, version) VALUES ('"+extra+"', '"+s.workspaceOf(0)+"', '{}', 4711)")
		s.parked(0, "1")
		return []string{extra}, func() {
			s.w.exec(s.w.databaseDSN(0), "ALTER TABLE shard_000.block DROP CONSTRAINT only_here")
			s.w.exec(s.w.sourceDSN(), "DELETE FROM public.block WHERE id = '"+extra+"'")
			s.parked(0, "0")
		}
	}},
	{"reverse capture is off", 4, []string{"db0", "public.block"}, func(s *siege) ([]string, func()) {
		_, undo := statements(0, "ALTER TABLE shard_000.block DISABLE TRIGGER shardctl_blocked_capture", "ALTER TABLE shard_000.block ENABLE ALWAYS TRIGGER shardctl_blocked_capture")(s)
		return nil, func() {
			undo()
			s.catchup.Interrupt(s.t)
			s.w.must(s.t, "doctor", "--acknowledge-ddl", "--yes")
			s.again()
			s.w.must(s.t, "verify")
		}
	}},
	{"reverse capture does nothing", 4, []string{"db0", "public.block"}, func(s *siege) ([]string, func()) {
		was := s.w.texts(s.w.databaseDSN(0), "SELECT pg_get_functiondef('shardctl.blocked_capture_1'::regproc)")[0]
		s.w.exec(s.w.databaseDSN(0), "CREATE OR REPLACE FUNCTION shardctl.blocked_capture_1() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		return nil, func() { s.w.exec(s.w.databaseDSN(0), was) }
	}},
	{"a sequence is exhausted", 4, []string{"public.comment_id_seq", "widen"}, statements(source,
		"DO $$BEGIN EXECUTE format('ALTER SEQUENCE public.comment_id_seq MAXVALUE %s', (SELECT last_value + 1500 FROM public.comment_id_seq)); END$$", "ALTER SEQUENCE public.comment_id_seq NO MAXVALUE")},
	{"a column was added", 4, []string{"public.comment", "mood", "--acknowledge-ddl"}, then(statements(source, "ALTER TABLE public.comment ADD COLUMN mood text", "ALTER TABLE public.comment DROP COLUMN mood"), (*siege).again)},
	{"a fence of a database is gone", 4, []string{"db0", "shardctl prepare --database db0"}, dropped(0, "shardctl_blocked_closed", "shard_000.block", "ENABLE ALWAYS")},
	{"a fence of the source is gone", 4, []string{"db0", "source", "shardctl doctor"}, dropped(source, "shardctl_blocked_fence_1", "public.block", "DISABLE")},
	{"a placement guard is gone", 4, []string{"db0", "guard", "shardctl prepare --database db0"}, dropped(0, "shardctl_blocked_guard", "shard_000.block", "DISABLE")},
	{"another operator is at work", 5, []string{"pid 4711 of somebody on elsewhere"}, func(s *siege) ([]string, func()) {
		conn, _ := s.session(s.w.sourceDSN(), "operator", `SELECT pg_advisory_lock(hashtextextended('shardctl lease blocked operator', 0));
		INSERT INTO shardctl.lease (migration, role, host, pid, os_user, backend_pid, backend_start, term)
		SELECT 'blocked', 'operator', 'elsewhere', 4711, 'somebody', pid, backend_start, 0 FROM pg_stat_activity WHERE pid = pg_backend_pid()`)
		return nil, func() {
			s.w.exec(s.w.sourceDSN(), "DELETE FROM shardctl.lease WHERE role = 'operator'")
			_ = conn.Close(context.Background())
		}
	}},
	{"catch-up does not answer", 5, []string{"catchup", "did not hand over within 2 s"}, func(s *siege) ([]string, func()) {
		s.w.catchupRuns(s.t) // it has the lease
		s.catchup.Signal(s.t, syscall.SIGSTOP)
		return []string{"pid " + strconv.Itoa(s.catchup.PID())}, func() {
			s.catchup.Signal(s.t, syscall.SIGCONT)
			eventually(s.t, binary.Patience, "catch-up to be level again", func() bool {
				lag, err := strconv.ParseFloat(text(s.w.must(s.t, "status"), "capture.lag_seconds"), 64)
				return err == nil && lag < 1
			})
		}
	}},
	{"the log has a gap", 4, []string{"db1", "the log reached 5 bytes"}, then(statements(source,
		"INSERT INTO shardctl.gap (migration, database, direction, reason) VALUES ('blocked', 'db1', 'forward', 'the log reached 5 bytes, its hard limit is 4')",
		"DELETE FROM shardctl.gap"), (*siege).again)},
}

// extra is a row that no writer knows.
const extra = "00000000-0000-0000-0000-00000000feed"

// workspaceOf gives a workspace of a shard.
func (s *siege) workspaceOf(shard int) string {
	for workspace, of := range s.c.writers[0].places {
		if of == shard {
			return workspace
		}
	}
	s.t.Fatalf("no workspace is of shard %d", shard)
	return ""
}
