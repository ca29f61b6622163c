package journey

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
)

// session opens one, says what application it is, and runs statements in it.
func (s *siege) session(dsn, application, sql string) (conn *pgx.Conn, pid string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), binary.Patience)
	defer cancel()
	cfg, err := pgx.ParseConfig(dsn)
	must(s.t, err)
	cfg.RuntimeParams["application_name"] = application
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err = pgx.ConnectConfig(ctx, cfg)
	must(s.t, err)
	_, err = conn.Exec(ctx, sql)
	must(s.t, err)
	return conn, fmt.Sprintf("pid %d", conn.PgConn().PID())
}

// old waits until a session's transaction is older than a gate lets be.
func (s *siege) old(dsn, pid string) {
	s.t.Helper()
	eventually(s.t, binary.Patience, "a transaction to grow old", func() bool {
		return len(s.w.texts(dsn, "SELECT 'old' FROM pg_stat_activity WHERE 'pid ' || pid = $1 AND clock_timestamp() - xact_start > '400 ms'", pid)) > 0
	})
}

// idle is a transaction that is left open after its statements.
func idle(database int, application, sql string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		dsn := s.dsn(database)
		conn, pid := s.session(dsn, application, "BEGIN; "+sql)
		s.old(dsn, pid)
		return []string{pid + " ", application, sql[:min(len(sql), 40)]}, func() { _ = conn.Close(context.Background()) }
	}
}

// reader leaves a transaction open that only reads, through the pooler.
func reader(database int) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		entry := fmt.Sprintf("postgres://%s@127.0.0.1:%d/app_001?sslmode=disable", app, s.w.bouncer.Port())
		const query = "SELECT count(*) FROM block"
		conn, _ := s.session(entry, "reports", "BEGIN; "+query)
		const old = "SELECT 'pid ' || pid FROM pg_stat_activity WHERE query = 'BEGIN; ' || $1 AND clock_timestamp() - xact_start > '400 ms'"
		var pid []string
		eventually(s.t, binary.Patience, "the reader to grow old", func() bool {
			pid = s.w.texts(s.dsn(database), old, query)
			return len(pid) > 0
		})
		return []string{pid[0] + " ", "reports", query}, func() { _ = conn.Close(context.Background()) }
	}
}

// busy is a session at work with a statement that does not end by itself.
func busy(database int, application, set, sql string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		dsn := s.dsn(database)
		conn, pid := s.session(dsn, application, set)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = conn.Exec(ctx, sql) // it is cancelled
			_ = conn.Close(context.Background())
		}()
		s.old(dsn, pid)
		return []string{pid + " ", application, sql[:min(len(sql), 40)]}, func() {
			s.w.exec(dsn, "SELECT pg_terminate_backend("+strings.TrimPrefix(pid, "pid ")+", 5000)")
			cancel()
			<-ended
		}
	}
}

// source is the place of the source among databases.
const source = -1

func (s *siege) dsn(database int) string {
	if database == source {
		return s.w.sourceDSN()
	}
	return s.w.databaseDSN(database)
}

// statements are run on one server, and others to undo them.
func statements(database int, do, undo string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		s.w.exec(s.dsn(database), do)
		return nil, func() { s.w.exec(s.dsn(database), undo) }
	}
}

// dropped takes a trigger away, and brings it back as it was.
func dropped(database int, trigger, table, enabled string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		dsn := s.dsn(database)
		again := s.w.texts(dsn, "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = $1 AND tgrelid = $2::text::regclass", trigger, table)
		s.w.exec(dsn, "DROP TRIGGER "+trigger+" ON "+table)
		return nil, func() { s.w.exec(dsn, again[0]+"; ALTER TABLE "+table+" "+enabled+" TRIGGER "+trigger) }
	}
}

// set gives the next commands a variable.
func set(name string, value func(*siege) string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		env := s.w.env
		s.w.env = append(env[:len(env):len(env)], name+"="+value(s))
		return nil, func() { s.w.env = env }
	}
}

// spec gives the next commands an edited spec.
func spec(from string, to func(*siege) string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		was := s.w.spec
		content, err := os.ReadFile(was)
		must(s.t, err)
		if !strings.Contains(string(content), from) {
			s.t.Fatalf("the spec has no %q:\n%s", from, content)
		}
		s.w.spec = was + ".edited"
		must(s.t, os.WriteFile(s.w.spec, []byte(strings.Replace(string(content), from, to(s), 1)), 0o600))
		return nil, func() { s.w.spec = was }
	}
}

func always(value string) func(*siege) string { return func(*siege) string { return value } }

// entries edits the pooler's file, and puts it back.
func entries(from, to string, reload bool) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		file := s.w.bouncer.DatabasesFile
		content, err := os.ReadFile(file)
		must(s.t, err)
		write := func(content string) {
			must(s.t, os.WriteFile(file, []byte(content), 0o644))
			if reload {
				s.console("RELOAD", nil)
			}
		}
		if !strings.Contains(string(content), from) {
			s.t.Fatalf("the pooler's file has no %q:\n%s", from, content)
		}
		write(strings.Replace(string(content), from, to, 1))
		return nil, func() { write(string(content)) }
	}
}

// again starts catch-up anew where it has stopped.
func (s *siege) again() {
	if s.catchup.Ended() {
		s.catchup = s.w.begin(s.whole, "catchup")
	}
	s.w.catchupRuns(s.t)
}

// then does more after an obstacle was taken away.
func then(put func(*siege) ([]string, func()), more func(*siege)) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		names, undo := put(s)
		return names, func() { undo(); more(s) }
	}
}

// parked waits until so many keys are in the quarantine of the side that is written.
func (s *siege) parked(side int, keys string) {
	s.t.Helper()
	eventually(s.t, binary.Patience, keys+" keys in quarantine", func() bool {
		return s.w.texts(s.dsn(side), "SELECT count(*)::text FROM shardctl.quarantine")[0] == keys
	})
}
