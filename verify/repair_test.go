package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// notebook notes what is to be read again.
type notebook struct {
	lines []string
	err   error
}

func (n *notebook) AppendReread(_ context.Context, database string, table migrate.TableName, keys ...[]string) error {
	for _, k := range keys {
		n.lines = append(n.lines, fmt.Sprintf("%s %s %v", database, table, k))
	}
	return n.err
}

func TestRepairHandsKeysAndTheirParentsToTheLog(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	block, comment := w.layout.Tables[0], w.layout.Tables[1]
	child := w.find(comment, "id = 500")
	w.damage(child.db, "DELETE FROM "+child.table+" WHERE id = 500")
	own := w.find(block, id(1))
	w.damage(own.db, "UPDATE "+own.table+" SET f = 2 WHERE "+id(1))
	if r := w.full(); len(r.Differences) != 2 {
		t.Fatalf("%+v", r)
	}
	failing := &notebook{err: errors.New("log is full")}
	if _, err := w.verifier.Repair(t.Context(), failing); !errors.Is(err, failing.err) {
		t.Errorf("a repair that failed: %v", err)
	}
	var n notebook
	count, err := w.verifier.Repair(t.Context(), &n)
	parent := w.source.Value(t, "SELECT block_id FROM comment WHERE id = 500")
	want := []string{
		fmt.Sprintf("%s public.block [%s]", own.name, w.source.Value(t, "SELECT md5('1')::uuid")),
		fmt.Sprintf("%s public.block [%s]", child.name, parent),
		fmt.Sprintf("%s public.comment [500]", child.name),
	}
	if err != nil || count != 2 || !slices.Equal(n.lines, want) {
		t.Errorf("%d, %v: %q, want %q", count, err, n.lines, want)
	}
	// A repair is not a verification.
	if err := w.verifier.Gate(t.Context(), []string{own.name}, 0); code(err) != "verify.differences" {
		t.Errorf("after the repair: %v", err)
	}
	w.catchUp()
	w.full()
	must(t, w.verifier.Gate(t.Context(), []string{own.name, child.name}, 0))
	if count, err := w.verifier.Repair(t.Context(), &n); count != 0 || err != nil {
		t.Errorf("nothing stands, and %d were repaired: %v", count, err)
	}
}

// Everything is shard 0; there need be no key. The bulk is read from a replica, which
// here is the source by another name.
func TestOneShardNeedsNoKey(t *testing.T) {
	t.Parallel()
	name := func(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }
	w := build(t, 1, migrate.Shards{Count: 1, Schema: "app"}, []migrate.Table{
		{Name: name("a")}, {Name: name("b"), As: "renamed"},
	}, "", "CREATE TABLE public.a (id int, part text, x text, PRIMARY KEY (part, id)); CREATE TABLE public.b (id date PRIMARY KEY, x text)")
	w.verifier.read = &server{Target: postgres.Target{Name: "replica", DSN: migrate.Secret(w.source.DSN())}}
	w.source.Exec(t, "INSERT INTO a SELECT i, 'p' || i % 3, 'x' FROM generate_series(1, 100) i; INSERT INTO b SELECT date '2020-01-01' + i, 'y' FROM generate_series(1, 100) i")
	w.catchUp()
	if r := w.full(); r.State != Clean || r.RowsCompared != 200 {
		t.Errorf("%+v", r)
	}
	w.source.Exec(t, "UPDATE a SET x = 'later' WHERE id < 10")
	w.damage(w.databases[0], "UPDATE app.a SET x = 'wrong' WHERE id = 50")
	w.damage(w.databases[0], "DELETE FROM app.renamed WHERE id = '2020-02-01'")
	got := lines(w.full().Differences)
	if want := []string{"different public.a p2,50 db0.app x", "missing public.b 2020-02-01 db0.app"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	w.verifier.Close()
	other := pgtest.NewDatabase(t)
	w.verifier.read = &server{Target: postgres.Target{Name: "replica", DSN: migrate.Secret(other.DSN())}}
	if _, err := w.verifier.Full(t.Context()); code(err) != "verify.replica" {
		t.Errorf("another database as replica: %v", err)
	}
	w.verifier.Close()
}

// What a database lost to a new preparation is no longer what the pass saw.
func TestADatabaseThatWasPreparedAnewIsStale(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.save(0, "forward", "1:1:")
	if err := w.verifier.Delta(t.Context(), []string{"db0"}); code(err) != "verify.stale" {
		t.Errorf("delta: %v", err)
	}
	if err := w.verifier.Gate(t.Context(), []string{"db0"}, 0); code(err) != "verify.stale" {
		t.Errorf("gate: %v", err)
	}
	must(t, w.verifier.Gate(t.Context(), []string{"db1"}, 0))
}

// The others' round is not lost when one database is down.
func TestADatabaseThatIsDownHoldsBackOnlyItself(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.full()
	w.source.Exec(t, "UPDATE block SET f = -1 WHERE "+id(1))
	w.catchUp(0) // the other one is behind: the round waits for nothing
	r, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || len(r.Differences)+len(r.Broken) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.verifier.DeltaCheck(t.Context(), "db7"); migrate.ExitCode(err) != migrate.ExitUsage {
		t.Errorf("unknown database: %v", err)
	}
	w.source.Exec(t, "UPDATE block SET f = -1")
	w.catchUp()
	w.verifier.Close()
	w.verifier.databases[0].DSN = "host=127.0.0.1 port=1 user=nobody password=hidden-word connect_timeout=1"
	r, err = w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err == nil || r == nil || r.Checked != 2000 || len(r.Differences)+r.Unsettled+len(r.Broken) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
