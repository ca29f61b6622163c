package journey

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// watchProcesses looks all the time for the password in the command lines of all
// processes, the watchdog's included. The function that it gives ends that and tells
// where it was seen, and how often it could look.
func watchProcesses(t testing.TB) (end func() (where []string, looks int)) {
	stop, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	finish := func() {
		once.Do(func() { close(stop) })
		<-done
	}
	t.Cleanup(finish)
	var where []string
	looks := 0
	go func() {
		defer close(done)
		poll := time.NewTicker(200 * time.Millisecond)
		defer poll.Stop()
		for {
			select {
			case <-stop:
				return
			case <-poll.C:
			}
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range lines {
				text, err := os.ReadFile(path)
				if err == nil && bytes.Contains(text, []byte(password)) {
					where = append(where, string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
				}
			}
			if len(lines) > 0 {
				looks++
			}
		}
	}()
	return func() ([]string, int) {
		finish()
		return where, looks
	}
}

// noSecrets looks for the password in the state on every server, in what commands
// printed, in the routers' files and in the servers' logs.
func (w *world) noSecrets(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	for _, c := range w.commands {
		if strings.Contains(c.Stdout()+c.Stderr(), password) {
			t.Errorf("%s printed the password:\n%s%s", c, c.Stdout(), c.Stderr())
		}
	}
	w.mu.Unlock()
	for _, path := range []string{w.source.LogFile(), w.targets[0].LogFile(), w.bouncer.LogFile(), w.bouncer.DatabasesFile, w.topologyFile(), w.spec} {
		text, err := os.ReadFile(path)
		must(t, err)
		if bytes.Contains(text, []byte(password)) {
			t.Errorf("%s holds the password", path)
		}
	}
	tables := w.stateHolds(t, w.sourceDSN())
	for i := range w.databases() {
		tables += w.stateHolds(t, w.databaseDSN(i))
	}
	if tables == 0 {
		t.Error("no state was there to look at")
	}
}

// stateHolds looks at every row of shardctl's tables and at every running statement, and
// gives the number of tables.
func (w *world) stateHolds(t testing.TB, dsn string) int {
	t.Helper()
	tables := w.texts(dsn, "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shardctl' AND c.relkind = 'r'")
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		for _, table := range append(tables, "pg_stat_activity") {
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+table+" x WHERE strpos(x::text, $1) > 0 AND strpos(x::text, 'strpos') = 0", password).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				t.Errorf("%d rows of %s on %s hold the password", n, table, dsn)
			}
		}
		return nil
	})
	return len(tables)
}
