package cutover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// open begins a transaction that the test leaves open, and gives what a refusal must
// say of it.
func (r *rig) open(d *pgtest.Database, sql string) (conn *pgx.Conn, name string) {
	r.t.Helper()
	conn = d.Connect(r.t)
	_, err := conn.Exec(r.t.Context(), "BEGIN; "+sql)
	must(r.t, err)
	return conn, fmt.Sprintf("pid %d (", conn.PgConn().PID())
}

// aged waits until a session's transaction is older than a quarter of 400 ms.
func (r *rig) aged(d *pgtest.Database, pid uint32) {
	r.t.Helper()
	pgtest.Eventually(r.t, 10*time.Second, func() bool {
		return d.Value(r.t, fmt.Sprintf("SELECT now() - xact_start > '200 ms' FROM pg_stat_activity WHERE pid = %d", pid)) == "t"
	})
}

func TestARollbackIsRefusedWhileAWriterIsOpenOnADatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	r.cfg.MaxPause = 400 * time.Millisecond
	writer, name := r.open(r.db0, writeDB0)
	r.aged(r.db0, writer.PgConn().PID())
	report, err := cutover.Rollback(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), name) || report.Pause.Router != nil {
		t.Errorf("%+v: %v, which does not say %q", report, err, name)
	}
}

func TestAnAbortNamesWhoHeldTheLock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, turn := range []struct {
		d      *pgtest.Database
		sql    string
		change func() error
	}{
		{r.source, writeSource, func() error { _, err := cutover.Cutover(t.Context(), r.cfg); return err }},
		{r.db0, writeDB0, func() error { _, err := cutover.Rollback(t.Context(), r.cfg); return err }},
	} {
		r.cfg.MaxPause = 3 * time.Second
		var writer *pgx.Conn
		var name string
		r.cfg.Observe = func(s cutover.Step) {
			if s.Name == "pre-lock" {
				writer, name = r.open(turn.d, turn.sql)
			}
		}
		if err := turn.change(); migrate.ExitCode(err) != migrate.ExitAborted || !strings.Contains(err.Error(), "held by "+name[:len(name)-2]) {
			t.Errorf("%v, which does not say %q", err, name)
		}
		_, err := writer.Exec(t.Context(), "ROLLBACK")
		must(t, err)
		r.cfg.Observe, r.cfg.MaxPause = nil, 10*time.Second
		must(t, turn.change())
	}
}

func TestAMaintenanceCommandIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Observe = func(s cutover.Step) {
		if s.Name == "gate: level" {
			r.open(r.db0, "LOCK TABLE s_0.item IN SHARE UPDATE EXCLUSIVE MODE")
		}
	}
	_, err := cutover.Cutover(t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), "a maintenance command holds the table") {
		t.Errorf("got %v", err)
	}
	r.serving(true, false)
}
