package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// blocks are what an application has drawn that takes a whole block of keys for each
// value, as libraries do that allocate them by the fifty.
type blocks struct {
	r    *rig
	size int64
	used map[int64]string // a key and who used it
}

// allocates makes the rig's sequence one of blocks.
func (r *rig) allocates(size int64) *blocks {
	r.source.Exec(r.t, "ALTER SEQUENCE item_id_seq INCREMENT BY "+strconv.FormatInt(size, 10))
	return &blocks{r: r, size: max(size, -size), used: map[int64]string{}}
}

// draw takes some blocks on each side and fails if a key is handed out again.
func (b *blocks) draw(databases ...*pgtest.Database) {
	b.r.t.Helper()
	for round := range 30 {
		for i, d := range databases {
			value, err := strconv.ParseInt(d.Value(b.r.t, "SELECT nextval('public.item_id_seq')"), 10, 64)
			must(b.r.t, err)
			who := fmt.Sprintf("%d in round %d", i, round)
			for n := range b.size {
				if other, taken := b.used[value+n]; taken {
					b.r.t.Fatalf("%s drew %d, whose block has %d, which %s has used", who, value, value+n, other)
				}
				b.used[value+n] = who
			}
		}
	}
}

func (r *rig) step(d *pgtest.Database) string {
	r.t.Helper()
	return d.Value(r.t, "SELECT seqincrement FROM pg_sequence WHERE seqrelid = 'public.item_id_seq'::regclass")
}

// laneFaults counts a database's.
func (r *rig) laneFaults(database string, d *pgtest.Database) int {
	r.t.Helper()
	faults, n, err := cutover.LaneFaults(r.t.Context(), r.cfg.Layout, r.connect("source", r.source), r.connect(database, d), database)
	if err != nil || n != 1 {
		r.t.Errorf("%d sequences of %s: %v", n, database, err)
	}
	return len(faults)
}

// TestLanesKeepTheBlocksOfAnAllocator: with a sequence that steps by fifty, one draw
// stands for fifty keys, on every side and through every switch.
func TestLanesKeepTheBlocksOfAnAllocator(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{50, -50} {
		t.Run(strconv.FormatInt(size, 10), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if size < 0 {
				for _, d := range []*pgtest.Database{r.source, r.db0, r.db1} {
					d.Exec(t, "ALTER SEQUENCE public.item_id_seq INCREMENT BY -1 MINVALUE -9000000 MAXVALUE -1 START WITH -1 RESTART")
				}
			}
			b := r.allocates(size)
			b.draw(r.source)
			r.turn(r.forth, cutover.Done, "db0")
			b.draw(r.source, r.db0)
			r.turn(r.forth, cutover.Done, "db1")
			b.draw(r.db0, r.db1)
			for name, d := range map[string]*pgtest.Database{"db0": r.db0, "db1": r.db1} {
				if r.laneFaults(name, d) != 0 || r.step(d) != strconv.FormatInt(3*size, 10) {
					t.Errorf("%s steps by %s: %d faults", name, r.step(d), r.laneFaults(name, d))
				}
			}
			r.turn(r.back, cutover.Done, "db1")
			b.draw(r.source, r.db0)
			r.turn(r.back, cutover.Done)
			b.draw(r.source)
			r.turn(r.forth, cutover.Done)
			b.draw(r.db0, r.db1)
			r.turn(r.back, cutover.Done)
			r.source.Exec(t, r.source.Value(t, "SELECT undo FROM shardctl.registry WHERE kind = 'sequence step'"))
			if got := r.step(r.source); got != strconv.FormatInt(size, 10) {
				t.Errorf("after the undo the source steps by %s", got)
			}
			b.draw(r.source)
		})
	}
}

// TestLanesThatAreTooNarrowAreWidened: an attempt that was made by the number of lanes
// alone is no excuse, neither on a database that serves nor on the source.
func TestLanesThatAreTooNarrowAreWidened(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.allocates(50)
	b.draw(r.source)
	r.turn(r.forth, cutover.Done, "db0")
	for _, d := range []*pgtest.Database{r.source, r.db0} {
		d.Exec(t, "ALTER SEQUENCE public.item_id_seq INCREMENT BY 3")
	}
	r.db0.Exec(t, "SELECT setval('public.item_id_seq', 700000)") // beyond the margin of the others
	b.used[700000] = "db0"
	if r.laneFaults("db0", r.db0) != 1 {
		t.Error("a lane that is too narrow is no fault")
	}
	r.turn(r.forth, cutover.Done, "db1")
	if got := r.step(r.db0); got != "150" {
		t.Errorf("db0 steps by %s", got)
	}
	b.draw(r.db0, r.db1)
	r.turn(r.back, cutover.Done, "db1")
	if got := r.step(r.source); got != "150" {
		t.Errorf("the source steps by %s", got)
	}
	b.draw(r.db0, r.source)
	if got := r.source.Value(t, "SELECT string_agg(undo, ';') FROM shardctl.registry WHERE kind = 'sequence step'"); !strings.HasSuffix(got, " INCREMENT BY 50") {
		t.Errorf("the undo is %s", got)
	}
}

// TestASwitchThatDoesNotHappenLeavesARightSequence: the source gets its lane before the
// window. Refused for want of room, it steps as before; aborted later, it steps over the
// blocks of lanes that nobody draws from yet.
func TestASwitchThatDoesNotHappenLeavesARightSequence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.allocates(50)
	b.draw(r.source)
	// Room for the source's lane, but not for another beyond it.
	r.source.Exec(t, "ALTER SEQUENCE item_id_seq MAXVALUE 60000")
	_, err := cutover.Cutover(t.Context(), r.only("db0"))
	if migrate.ExitCode(err) != migrate.ExitRefused {
		t.Fatalf("not refused: %v", err)
	}
	if got := r.step(r.source); got != "50" {
		t.Errorf("after a refusal the source steps by %s", got)
	}
	r.source.Exec(t, "ALTER SEQUENCE item_id_seq NO MAXVALUE")
	r.verdict.set(func(context.Context) error { return migrate.At("db0", errors.New("a row differs")) })
	_, err = cutover.Cutover(t.Context(), r.only("db0"))
	if migrate.ExitCode(err) != migrate.ExitAborted {
		t.Fatalf("not aborted: %v", err)
	}
	if got := r.step(r.source); got != "150" {
		t.Errorf("after an abort the source steps by %s", got)
	}
	b.draw(r.source)
	r.verdict.set(nil)
	r.turn(r.forth, cutover.Done)
	b.draw(r.db0, r.db1)
}
