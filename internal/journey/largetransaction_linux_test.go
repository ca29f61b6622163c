package journey

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// largeRows is how many rows the one transaction writes. SHARDCTL_LARGE_ROWS gives
// another number.
func largeRows(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SHARDCTL_LARGE_ROWS")
	if text == "" {
		if pgtest.LongForm() {
			return 5_000_000
		}
		return 200_000
	}
	rows, err := strconv.Atoi(text)
	must(t, err)
	return rows
}

// mostMemory is what any command may have in memory, whatever a transaction holds.
const mostMemory = 256 << 20

// TestChaosOneLargeTransaction: a batch is never smaller than a transaction, and
// catch-up's memory is not as large as one.
func TestChaosOneLargeTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "large", home: []int{0, 1}, schema: "public", settings: []string{"max_wal_size=8GB"}, blocks: 10, writers: 1})
	w.load()
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	rows := largeRows(t)
	source, err := pgx.Connect(t.Context(), w.sourceDSN())
	must(t, err)
	_, err = source.Exec(t.Context(), fmt.Sprintf(`INSERT INTO public.block (id, workspace_id, doc) SELECT id, id, '{}' FROM (SELECT ('00000000-0000-0000-0000-' || lpad(to_hex(g), 12, '0'))::uuid AS id FROM generate_series(1, %d) g) g`, rows))
	must(t, err)
	must(t, source.Close(t.Context()))
	catchup := w.begin(t, "catchup", "--once")
	used := catchup.WatchMemory()()
	if r := catchup.Result(); r.Code != 0 {
		t.Fatalf("catchup: %s", r)
	}
	if used > mostMemory || used == 0 {
		t.Errorf("catchup had %d MB in memory, of a transaction of %d rows", used>>20, rows)
	} else {
		t.Logf("catchup had %d MB in memory, of a transaction of %d rows", used>>20, rows)
	}
	const written = "id < '00000000-0000-0001-0000-000000000000'"
	n0, hash0 := w.digest(w.databaseDSN(0), written)
	n1, hash1 := w.digest(w.databaseDSN(1), written)
	want, hash := w.digest(w.sourceDSN(), written)
	if n0+n1 != want || hash0+hash1 != hash || n0 == 0 || n1 == 0 {
		t.Errorf("the databases have %d and %d rows, hashed together to %d, the source %d, %d", n0, n1, hash0+hash1, want, hash)
	}
}
