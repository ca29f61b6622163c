package postgres_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/conformance"
	"github.com/shardctl/shardctl/internal/topology/postgres"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const table = "shardctl_topology.topology"

func spec(dsn string) *migrate.Spec {
	return &migrate.Spec{
		Migration: "blocks",
		Source:    migrate.Source{DSN: "host=src dbname=mono user=u"},
		Databases: []migrate.Database{{Name: "db0", DSN: "host=h0 dbname=a user=u"}, {Name: "db1", DSN: "host=h1 dbname=b user=u"}},
		Shards:    migrate.Shards{Count: 4, Schema: "shard_%03d", Placement: []string{"db0", "db0", "db1", "db1"}},
		Topology: []migrate.Router{{Driver: "postgres", DSN: migrate.Secret(dsn), Channel: "shardctl_topology",
			Table: migrate.TableName{Schema: "shardctl_topology", Name: "topology"}}},
	}
}

// document makes the one of an epoch; db0's shards are the named owner's.
func document(t testing.TB, epoch int64, owner string) topology.Topology {
	t.Helper()
	doc, err := topology.Build(spec(""), []store.Ownership{{Database: "db0", Shards: []int{0, 1}, Owner: owner, Epoch: epoch},
		{Database: "db1", Shards: []int{2, 3}, Owner: store.OwnerSource, Epoch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func router(t testing.TB, dsn string) *postgres.Router {
	t.Helper()
	s := spec(dsn)
	r, err := postgres.New(s, s.Topology[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Target {
		db := pgtest.NewDatabase(t)
		s := spec(db.DSN())
		return conformance.Target{
			Spec:   s,
			Router: func(t *testing.T) topology.Router { return router(t, db.DSN()) },
			LeadsTo: func(t *testing.T, shard int) string {
				var doc topology.Topology
				if err := json.Unmarshal([]byte(db.Value(t, "SELECT document FROM "+table+" WHERE migration = 'blocks'")), &doc); err != nil {
					t.Fatal(err)
				}
				return doc.Shards[shard].DBName
			},
		}
	})
}

// code is that of an error's failure.
func code(err error) string {
	var f *migrate.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

func TestProbeLeavesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	if _, err := router(t, db.DSN()).Probe(t.Context(), document(t, 1, "source"), nil); err != nil {
		t.Fatal(err)
	}
	if got := db.Value(t, "SELECT to_regnamespace('shardctl_topology')"); got != "NULL" {
		t.Errorf("the probe left schema %s", got)
	}
}

func TestProbeOfAnOlderEpochIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	if err := r.Commit(t.Context(), document(t, 5, "db0")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Probe(t.Context(), document(t, 4, "source"), nil); code(err) != "topology.older_epoch" {
		t.Errorf("got %v", err)
	}
}

func TestEachMigrationHasARowOfItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	other := spec(db.DSN())
	other.Migration = "other"
	second, err := postgres.New(other, other.Topology[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	doc := document(t, 2, "source")
	if err := router(t, db.DSN()).Commit(t.Context(), document(t, 7, "db0")); err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(t.Context(), doc); err == nil {
		t.Error("a document of another migration was written")
	}
	doc.Migration = "other"
	if err := second.Commit(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(db.Rows(t, "SELECT migration, epoch FROM "+table+" ORDER BY 1"), " "); got != "blocks|7 other|2" {
		t.Errorf("rows: %s", got)
	}
}

func TestReadBackOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	doc := document(t, 1, "source")
	if err := r.ReadBack(t.Context(), doc); code(err) != "router.read_back" {
		t.Errorf("without a table: %v", err)
	}
	if err := r.Commit(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "DELETE FROM "+table)
	if err := r.ReadBack(t.Context(), doc); code(err) != "router.read_back" {
		t.Errorf("without a row: %v", err)
	}
	if err := r.Commit(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "UPDATE "+table+" SET document = '[]'")
	if err := r.ReadBack(t.Context(), doc); code(err) != "router.table" {
		t.Errorf("with another content: %v", err)
	}
	if d, err := r.Describe(t.Context()); err != nil || len(d.Findings) != 1 || d.Findings[0].ID != "router.table" {
		t.Errorf("described: %+v, %v", d, err)
	}
}

func TestASessionThatBrokeIsOpenedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	for epoch := range int64(3) {
		doc := document(t, epoch+1, "db0")
		if err := errors.Join(r.Commit(t.Context(), doc), r.ReadBack(t.Context(), doc)); err != nil {
			t.Fatal(err)
		}
		const ours = "FROM pg_stat_activity WHERE application_name = 'shardctl topology' AND datname = current_database()"
		if n := db.Value(t, "SELECT count(pg_terminate_backend(pid)) "+ours); n != "1" {
			t.Fatalf("%s sessions", n)
		}
		pgtest.Eventually(t, 10*time.Second, func() bool { return db.Value(t, "SELECT count(*) "+ours) == "0" }) // it ends when it likes
	}
}

func TestForgottenReadersGoOn(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	r := router(t, db.DSN())
	if err := errors.Join(r.Commit(t.Context(), document(t, 4, "db0")), r.Forget(t.Context()), r.Forget(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := db.Value(t, "SELECT epoch, document->>'epoch', document->'shards'->0->>'dbname' FROM "+table); got != "0|0|a" {
		t.Errorf("got %s", got)
	}
}
