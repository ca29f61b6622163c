package journey

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/shardsql"
)

// writesBetween is how many rows are written between one switch and the next.
func writesBetween() int {
	if pgtest.LongForm() {
		return 100_000
	}
	return 10_000
}

// TestChaosWritesBetweenSwitches goes forward, back and forward again, without copying, with
// many writes on the side that serves before each of them.
func TestChaosWritesBetweenSwitches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "between", home: []int{0, 1}, schema: "public", blocks: 500, writers: 1})
	w.load()
	w.copied(t)
	catchup := w.begin(t, "catchup")
	for turn, command := range []string{"cutover", "rollback", "cutover"} {
		w.catchupRuns(t)
		if command == "cutover" {
			w.must(t, "verify")
		}
		w.must(t, command, "--yes")
		places := map[string]string{w.sourceDSN(): "true"}
		if command == "cutover" {
			shard := shardsql.Expr("w", "uuid", 2)
			places = map[string]string{w.databaseDSN(0): shard + " = 0", w.databaseDSN(1): shard + " = 1"}
		}
		for dsn, mine := range places {
			w.writeMany(dsn, mine, turn)
		}
		eventually(t, binary.Patience, "both sides to be level", w.level)
	}
	if w.must(t, "verify"); catchup.Ended() {
		t.Errorf("catchup ended: %s", catchup.Wait(t))
	}
}

// writeMany writes a place's part of what comes after a switch: it adds rows, changes those
// that were added before, and takes some of them away.
func (w *world) writeMany(dsn, mine string, turn int) {
	n := writesBetween()
	id := func(turn int) string { return fmt.Sprintf("md5('%d/' || g)::uuid", turn) }
	add := fmt.Sprintf("INSERT INTO public.block (id, workspace_id, doc) SELECT x.id, w, '{}' FROM (SELECT %s AS id, md5((g %% 997)::text)::uuid AS w FROM generate_series(1, %d) g) x WHERE %s", id(turn), n*6/10, mine)
	change := fmt.Sprintf("UPDATE public.block SET doc = '{\"turn\": %d}', version = version + 1 WHERE id IN (SELECT %s FROM generate_series(1, %d) g)", turn, id(max(turn-1, 0)), n*3/10)
	remove := fmt.Sprintf("DELETE FROM public.block WHERE id IN (SELECT %s FROM generate_series(%d, %d) g)", id(max(turn-1, 0)), n*3/10+1, n*4/10)
	for _, sql := range []string{add, change, remove} {
		w.exec(dsn, sql)
	}
}

// level reports whether the databases together have the source's blocks.
func (w *world) level() bool {
	rows, hash := w.digest(w.sourceDSN(), "true")
	for i := range w.databases() {
		n, h := w.digest(w.databaseDSN(i), "true")
		rows, hash = rows-n, hash-h
	}
	return rows == 0 && hash == 0
}

// digest counts some of a place's blocks and sums the hashes of what they hold.
func (w *world) digest(dsn, where string) (rows, hash int64) {
	got := w.texts(dsn, "SELECT count(*) || ' ' || coalesce(sum(hashtext(b::text)), 0) FROM public.block b WHERE "+where)
	_, err := fmt.Sscan(got[0], &rows, &hash)
	must(w.t, err)
	return rows, hash
}
