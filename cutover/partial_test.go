package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// keys of shards 0-1 (db0) and 2-3 (db1), as the placement has them.
func (r *rig) keys(database string) (out []string) {
	r.t.Helper()
	table := r.cfg.Layout.Tables[0]
	sql := "SELECT k FROM generate_series(1, 40) k WHERE " + r.cfg.Layout.ShardSQL(table, "k") + " = ANY('{" +
		strings.Trim(strings.ReplaceAll(fmt.Sprint(r.cfg.Layout.Spec.Shards.ShardsOf(database)), " ", ","), "[]") + "}')"
	return r.source.Rows(r.t, sql)
}

func (r *rig) only(databases ...string) cutover.Config {
	cfg := r.cfg
	cfg.Only = databases
	return cfg
}

func (r *rig) turn(run func(cutover.Config) (cutover.Report, error), want cutover.Outcome, databases ...string) cutover.Report {
	r.t.Helper()
	report, err := run(r.only(databases...))
	if err != nil || report.Outcome != want {
		r.t.Fatalf("%v: %+v %v", databases, report, err)
	}
	return report
}

func (r *rig) forth(cfg cutover.Config) (cutover.Report, error) {
	return cutover.Cutover(r.t.Context(), cfg)
}
func (r *rig) back(cfg cutover.Config) (cutover.Report, error) {
	return cutover.Rollback(r.t.Context(), cfg)
}

func (r *rig) phase(want string) {
	r.t.Helper()
	if got := r.source.Value(r.t, "SELECT phase FROM shardctl.migration"); got != want {
		r.t.Errorf("phase %s, want %s", got, want)
	}
}

func insert(key string) string { return "INSERT INTO item (owner, body) VALUES (" + key + ", 'x')" }

// TestOneDatabaseAtATime there and back: each time only the named database's shards
// change hands, and each key has one writable owner.
func TestOneDatabaseAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k0, k1 := r.keys("db0")[0], r.keys("db1")[0]
	owners := func(want0, want1 bool) { // whether the source takes writes to the shards of each
		t.Helper()
		if got := !refused(t, r.source, insert(k0)); got != want0 {
			t.Errorf("the source takes writes for db0: %v", got)
		}
		if got := !refused(t, r.source, insert(k1)); got != want1 {
			t.Errorf("the source takes writes for db1: %v", got)
		}
		for shard, d := range map[string]*pgtest.Database{"s_0": r.db0, "s_3": r.db1} {
			want := !want0
			if shard == "s_3" {
				want = !want1
			}
			if got := !refused(t, d, "UPDATE "+shard+".item SET body = 'y'"); got != want {
				t.Errorf("%s takes writes: %v", shard, got)
			}
		}
	}
	steps := []struct {
		run       func(cutover.Config) (cutover.Report, error)
		databases []string
		phase     string
		src0      bool
		src1      bool
	}{
		{r.forth, []string{"db0"}, "partly_cut_over", false, true},
		{r.forth, []string{"db1"}, "cut_over", false, false},
		{r.back, []string{"db0"}, "partly_cut_over", true, false},
		{r.back, nil, "rolled_back", true, true},
		{r.forth, []string{"db1"}, "partly_cut_over", true, false},
		{r.forth, nil, "cut_over", false, false},
		{r.back, []string{"db1", "db0"}, "rolled_back", true, true},
	}
	owners(true, true)
	for _, s := range steps {
		r.turn(s.run, cutover.Done, s.databases...)
		r.phase(s.phase)
		owners(s.src0, s.src1)
		report := r.turn(s.run, cutover.Nothing, s.databases...)
		if string(report.Phase) != s.phase {
			t.Errorf("once more: %+v", report)
		}
	}
	r.turn(r.forth, cutover.Done) // with what owners has written on the source
	r.equal()
}

// equal compares every row of the source with the databases'.
func (r *rig) equal() {
	r.t.Helper()
	const columns = "SELECT id || ' ' || owner || ' ' || body FROM "
	there := map[string]bool{}
	for schema, d := range map[string]*pgtest.Database{"s_0": r.db0, "s_1": r.db0, "s_2": r.db1, "s_3": r.db1} {
		for _, row := range d.Rows(r.t, columns+schema+".item") {
			if there[row] {
				r.t.Errorf("%s is there twice", row)
			}
			there[row] = true
		}
	}
	here := r.source.Rows(r.t, columns+"item")
	for _, row := range here {
		if !there[row] {
			r.t.Errorf("%s is on the source alone", row)
		}
	}
	if len(here) != len(there) {
		r.t.Errorf("%d rows on the source, %d on the databases", len(here), len(there))
	}
}

// TestWritersOfAPartlyMovedTableDrawFromLanes: the source's lane too, from before the
// first shard moves; abort's undo steps as it did.
func TestWritersOfAPartlyMovedTableDrawFromLanes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.turn(r.forth, cutover.Done, "db0")
	k0, k1 := r.keys("db0")[0], r.keys("db1")[0]
	draw := func() {
		t.Helper()
		for range 10 {
			r.source.Exec(t, insert(k1))
			r.db0.Exec(t, "INSERT INTO "+r.schemaOf(k0)+".item (owner, body) VALUES ("+k0+", 'z')")
		}
	}
	draw()
	for i, d := range []*pgtest.Database{r.source, r.db0} {
		name := "public.item_id_seq"
		if got := d.Value(t, "SELECT last_value % 3 FROM "+name); got != fmt.Sprint(i) {
			t.Errorf("place %d draws in lane %s", i, got)
		}
	}
	r.turn(r.back, cutover.Done, "db0")
	r.turn(r.forth, cutover.Done, "db0")
	draw()
	r.turn(r.back, cutover.Done)
	if got := r.source.Value(t, "SELECT count(*) - count(DISTINCT id) FROM item"); got != "0" {
		t.Errorf("%s numbers were drawn twice", got)
	}
	undo := r.source.Rows(t, "SELECT undo FROM shardctl.registry WHERE kind = 'sequence step'")
	if len(undo) != 1 {
		t.Fatalf("registered: %v", undo)
	}
	r.source.Exec(t, undo[0])
	drawn := r.db0.Value(t, "SELECT last_value FROM public.item_id_seq")
	if got := r.source.Value(t, "SELECT nextval('item_id_seq') - "+drawn); strings.HasPrefix(got, "-") {
		t.Errorf("after the undo the source draws %s from what db0 has drawn: %s", got, drawn)
	}
	if got := r.source.Value(t, "SELECT seqincrement FROM pg_sequence WHERE seqrelid = 'item_id_seq'::regclass"); got != "1" {
		t.Errorf("the source steps by %s", got)
	}
}

func (r *rig) schemaOf(key string) string {
	r.t.Helper()
	return "s_" + r.source.Value(r.t, "SELECT "+r.cfg.Layout.ShardSQL(r.cfg.Layout.Tables[0], key))
}

// TestAStrayWriteLosesAgainstTheOwner: one that went around the fence of the source is
// shown, not applied, and is replaced on the way back.
func TestAStrayWriteLosesAgainstTheOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.turn(r.forth, cutover.Done, "db0")
	keys := r.keys("db0")
	r.source.Exec(t, "ALTER TABLE item DISABLE TRIGGER shardctl_m_fence_1")
	r.source.Exec(t, "UPDATE item SET body = 'stray' WHERE owner = "+keys[0])
	r.source.Exec(t, "DELETE FROM item WHERE owner = "+keys[1])
	r.source.Exec(t, "INSERT INTO item (owner, body) VALUES ("+keys[2]+", 'stray')")
	r.source.Exec(t, "ALTER TABLE item ENABLE ALWAYS TRIGGER shardctl_m_fence_1")
	r.db0.Exec(t, "UPDATE "+r.schemaOf(keys[3])+".item SET body = 'theirs' WHERE owner = "+keys[3])
	r.turn(r.back, cutover.Done, "db0")
	if got := r.source.Value(t, "SELECT count(*) FROM item WHERE body = 'stray'"); got != "0" {
		t.Errorf("%s stray rows survived", got)
	}
	if got := r.source.Value(t, "SELECT count(*) FROM item WHERE body = 'theirs' AND owner = "+keys[3]); got != "1" {
		t.Errorf("%s rows of the owner came back", got)
	}
	if got := r.source.Value(t, "SELECT count(*) FROM item WHERE owner = "+keys[1]); got != "1" {
		t.Error("a row that was deleted around the fence did not come back")
	}
	if n, err := store.Strays(t.Context(), r.connect("source", r.source), "m", "db0"); err != nil || n != 0 {
		t.Errorf("%d stray writes are still open: %v", n, err)
	}
	r.turn(r.forth, cutover.Done)
	r.equal()
}

// TestADatabaseThatIsDownConcernsOnlyItself: the others can be switched by name, both
// ways, and a switch of all says so.
func TestADatabaseThatIsDownConcernsOnlyItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.cfg.Databases[1]
	r.cfg.Databases[1].DSN = "host=127.0.0.1 port=1 dbname=x connect_timeout=1"
	_, err := r.forth(r.only())
	if err == nil || !strings.Contains(err.Error(), "shardctl cutover --database db0") || migrate.ExitCode(err) != migrate.ExitError {
		t.Errorf("all: %v", err)
	}
	r.turn(r.forth, cutover.Done, "db0")
	r.phase("partly_cut_over")
	r.turn(r.back, cutover.Done, "db0")
	r.phase("rolled_back")
	r.turn(r.forth, cutover.Done, "db0")
	r.cfg.Databases[1] = good
	r.turn(r.forth, cutover.Done)
	r.phase("cut_over")
	r.equal()
	if got := r.db1.Value(t, "SELECT string_agg(DISTINCT owner, ',' ORDER BY owner) FROM shardctl.ownership"); got != "db0,db1" {
		t.Errorf("db1 knows of owners %s", got)
	}
}

// TestAKeyThatWouldChangeItsOwnerIsRefused on both sides of a partly moved table.
func TestAKeyThatWouldChangeItsOwnerIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.turn(r.forth, cutover.Done, "db0")
	k0, k1 := r.keys("db0")[0], r.keys("db1")[0]
	if !refused(t, r.source, "UPDATE item SET owner = "+k0+" WHERE owner = "+k1) {
		t.Error("the source let a row go to a shard of db0")
	}
	conn := r.db0.Connect(t)
	if _, err := conn.Exec(t.Context(), "UPDATE "+r.schemaOf(k0)+".item SET owner = "+k1+" WHERE owner = "+k0); err == nil {
		t.Error("db0 let a row go to a shard of the source")
	}
	if !refused(t, r.source, "TRUNCATE item") {
		t.Error("the source let all rows go")
	}
}

// TestAPartialSwitchThatFailsLeavesTheRestAlone.
func TestAPartialSwitchThatFailsLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.turn(r.forth, cutover.Done, "db0")
	r.verdict.set(func(ctx context.Context) error { return migrate.At("db1", errors.New("a row differs")) })
	report, err := r.forth(r.only())
	if report.Outcome != cutover.Aborted || migrate.ExitCode(err) != migrate.ExitAborted || len(report.Databases) != 1 || report.Databases[0] != "db1" {
		t.Fatalf("%+v %v", report, err)
	}
	r.phase("partly_cut_over")
	if !refused(t, r.source, insert(r.keys("db0")[0])) || refused(t, r.db0, writeDB0) {
		t.Error("db0 does not own its shards any more")
	}
	r.verdict.set(nil)
	r.turn(r.forth, cutover.Done)
	r.verdict.set(func(ctx context.Context) error { return migrate.At("db1", errors.New("a row differs")) })
	_, err = r.back(r.only())
	if migrate.ExitCode(err) != migrate.ExitAborted || !strings.Contains(err.Error(), "shardctl rollback --database db0") {
		t.Errorf("%v", err)
	}
	r.phase("cut_over")
}
