package backfill_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// standby is a physical replica of a server, for the time of a test.
type standby struct {
	port int
	conn *pgx.Conn
}

// newStandby copies a server and follows it.
func newStandby(t *testing.T, primary *pgtest.Cluster) *standby {
	t.Helper()
	dir, err := os.MkdirTemp("", "shardctl-standby-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	as := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // servers refuse to run as root
		account, err := user.Lookup("postgres")
		must(t, err)
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		must(t, os.Chown(dir, uid, gid))
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	program := func(name string, args ...string) *exec.Cmd {
		path, err := primary.Program(name)
		must(t, err)
		cmd := exec.Command(path, args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	data := dir + "/data"
	copying := program("pg_basebackup", "-h", "127.0.0.1", "-p", fmt.Sprint(primary.Port()), "-U", localpg.Superuser, "-D", data, "-R", "-c", "fast")
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	port, err := localpg.FreePort()
	must(t, err)
	server := program("postgres", "-D", data, "-p", fmt.Sprint(port), "-k", dir)
	must(t, server.Start())
	t.Cleanup(func() {
		must(t, server.Process.Signal(syscall.SIGQUIT))
		_ = server.Wait() // "exit status 2" is how an immediate stop ends
	})
	s := &standby{port: port}
	pgtest.Eventually(t, patience, func() bool {
		s.conn, err = pgx.Connect(context.Background(), s.dsn("postgres"))
		return err == nil
	})
	t.Cleanup(func() { _ = s.conn.Close(context.Background()) })
	return s
}

func (s *standby) dsn(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", localpg.Superuser, s.port, database)
}

// exec runs a statement on the standby.
func (s *standby) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := s.conn.Exec(context.Background(), sql)
	must(t, err)
}

// reaches waits until the standby has replayed all that the source has written.
func (s *standby) reaches(t *testing.T, f *fixture) {
	t.Helper()
	lsn := f.source.Value(t, "SELECT pg_current_wal_insert_lsn()")
	pgtest.Eventually(t, patience, func() bool {
		var there bool
		must(t, s.conn.QueryRow(context.Background(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", lsn).Scan(&there))
		return there
	})
}

// TestReplica reads from a standby.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewCluster(t, pgtest.ClusterOptions{Settings: []string{"wal_level=replica", "max_wal_senders=4", "max_connections=60"}})
	p := &pool{append([]*pgtest.Database{primary.NewDatabase(t)}, pgtest.NewDatabases(t, 2)...)}
	s := newStandby(t, primary)
	fixed := func(t *testing.T) (*fixture, backfill.Config) {
		f := p.fixture(t, blocks(1500))
		s.reaches(t, f)
		cfg := f.live(4)
		cfg.Read = &postgres.Target{Name: "replica", DSN: migrate.Secret(s.dsn(f.source.Name))}
		return f, cfg
	}
	t.Run("WhatItHasNotReplayedStaysDead", func(t *testing.T) {
		f, cfg := fixed(t)
		s.exec(t, "SELECT pg_wal_replay_pause()")
		f.source.Exec(t, "DELETE FROM block WHERE id <= 20; UPDATE block SET note = 'newer' WHERE id BETWEEN 21 AND 40")
		f.tick(t, ids(1, 40)...) // the standby shows the rows as they were
		f.run(t, cfg)
		s.exec(t, "SELECT pg_wal_replay_resume()")
		f.check(t)
	})
	t.Run("NothingIsReadBeforeInstallIsReplayed", func(t *testing.T) {
		f, cfg := fixed(t)
		s.exec(t, "SELECT pg_wal_replay_pause()")
		f.source.Exec(t, "UPDATE block SET note = 'before install'")
		f.source.Exec(t, "UPDATE shardctl.migration SET install_lsn = pg_current_wal_insert_lsn()")
		behind := make(chan string, 100)
		cfg.Events = func(e backfill.Event) {
			if e.Kind == backfill.EventUnreachable {
				behind <- e.Message
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := backfill.Run(context.Background(), cfg)
			done <- err
		}()
		if m := <-behind; !strings.Contains(m, "not replayed") {
			t.Errorf("it waits because %s", m)
		}
		s.exec(t, "SELECT pg_wal_replay_resume()")
		must(t, <-done)
		f.check(t)
	})
	t.Run("FastReadsWhatTheHeldPositionHasSeen", func(t *testing.T) {
		f, cfg := fixed(t)
		cfg.Mode = backfill.Fast
		f.run(t, cfg)
		f.check(t)
	})
	t.Run("AServerThatIsNoReplicaIsRefused", func(t *testing.T) {
		f, cfg := fixed(t)
		cfg.Read = &postgres.Target{Name: "replica", DSN: migrate.Secret(f.source.DSN())}
		_, err := backfill.Run(context.Background(), cfg)
		refusal(t, err, "read_dsn.not_standby")
		cfg.Read = &postgres.Target{Name: "replica", DSN: migrate.Secret(f.databases["db0"].DSN())}
		_, err = backfill.Run(context.Background(), cfg)
		refusal(t, err, "read_dsn.other")
	})
}
