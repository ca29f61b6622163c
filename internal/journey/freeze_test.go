package journey

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// working finds the sessions that hold a command's work: a tick or a chunk is one
// transaction on each side. Others only mind its lease, its queue or its load.
var working = map[string]string{
	"catchup":  "application_name IN ('shardctl catchup read', 'shardctl apply')",
	"backfill": "application_name = 'shardctl backfill'",
}

// looker sees which transactions are open on every server, without delay.
type looker []*pgx.Conn

func (w *world) looker(t testing.TB) looker {
	t.Helper()
	var l looker
	for _, c := range append([]*pgtest.Cluster{w.source}, w.targets...) {
		conn, err := pgx.Connect(context.Background(), c.DSN("postgres"))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		l = append(l, conn)
	}
	return l
}

// open tells how many transactions of a command's work are open.
func (l looker) open(t testing.TB, command string) (n int) {
	t.Helper()
	for _, conn := range l {
		var here int
		err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND "+working[command]).Scan(&here)
		must(t, err)
		n += here
	}
	return n
}

// slice is how long a command runs between two looks: short, so that it does not finish
// before it is killed.
const slice = 10 * time.Millisecond

// killAtWork kills a command, as kill -9 does, at a random moment of its work, after it got
// as far as ready says. It gives the number of transactions that were open while the
// process stood still, right before its end; 0 if none was seen for long. A command that
// has not begun yet is left to run: looks would only delay its start.
func (l looker) killAtWork(t testing.TB, random *rand.Rand, c *binary.Command, ready func() bool) (open int) {
	t.Helper()
	left := 1 + random.IntN(8) // looks that find work, the last of which is the end
	run := time.NewTimer(slice)
	defer run.Stop()
	begun := false
	for deadline := time.Now().Add(binary.Patience); ; {
		select {
		case <-run.C:
		case <-c.Done():
			t.Fatalf("%s ended before it was killed: %s", c, c.Wait(t))
		}
		begun = begun || l.open(t, c.Args()[0]) > 0
		if begun {
			c.Signal(t, syscall.SIGSTOP)
			if open = l.open(t, c.Args()[0]); open > 0 && ready() {
				left--
			}
		}
		if left == 0 || time.Now().After(deadline) {
			c.Kill()
			return open
		}
		c.Signal(t, syscall.SIGCONT)
		run.Reset(slice + time.Duration(random.IntN(int(slice))))
	}
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
