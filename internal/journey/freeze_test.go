package journey

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sessions of a command that hold its work: a tick or a chunk is one transaction on each
// side. Others only mind its lease, its queue or its load.
var sessions = map[string]string{
	"catchup":  "application_name IN ('shardctl catchup read', 'shardctl apply')",
	"backfill": "application_name LIKE 'shardctl backfill%' AND application_name NOT IN ('shardctl backfill queue', 'shardctl backfill watch')",
}

// open tells how many transactions of a command are open on any server.
func (w *world) open(command string) (n int) {
	w.t.Helper()
	dsns := []string{w.sourceDSN()}
	for _, c := range w.targets {
		dsns = append(dsns, c.DSN("postgres"))
	}
	for _, dsn := range dsns {
		n += len(w.texts(dsn, "SELECT application_name FROM pg_stat_activity WHERE xact_start IS NOT NULL AND "+sessions[command]))
	}
	return n
}

// killAtWork kills a command, as kill -9 does, at a random moment: it waits a random time
// and then, for most, until work is under way. It gives the number of transactions that
// were open while the process stood still, right before its end.
func (w *world) killAtWork(t testing.TB, random *rand.Rand, c *command) (open int) {
	t.Helper()
	name := c.args[0]
	pause := time.NewTimer(time.Duration(random.IntN(1000)) * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.done:
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if c.ended() {
			t.Fatalf("%s ended before it was killed: %s", c, c.wait(t))
		}
		// What is seen while it runs may be over before the signal comes: it is looked at again.
		if w.open(name) > 0 || time.Now().After(deadline) {
			c.signal(t, syscall.SIGSTOP)
			if open = w.open(name); open > 0 || time.Now().After(deadline) {
				break
			}
			c.signal(t, syscall.SIGCONT)
		}
	}
	c.kill()
	return open
}

// ledger lists the lines of every database's ledger, each with the time it was written.
func (w *world) ledger() (lines []string) {
	w.t.Helper()
	for i := range w.databases() {
		const sql = "SELECT format('plan %s table %s chunk %s at %s', plan, table_no, chunk, at) FROM shardctl.ledger ORDER BY 1"
		for _, l := range w.texts(w.databaseDSN(i), sql) {
			lines = append(lines, w.database(i)+" "+l)
		}
	}
	return lines
}

// kept fails the test for a ledger line that was there and is not, or was written again:
// its chunk was copied twice.
func kept(t testing.TB, before, after []string) {
	t.Helper()
	there := strings.Join(after, "\n") + "\n"
	for _, l := range before {
		if !strings.Contains(there, l+"\n") {
			t.Errorf("the chunk of %q was copied again", l)
		}
	}
}
