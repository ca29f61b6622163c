package topology_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

func spec() *migrate.Spec {
	return &migrate.Spec{
		Migration: "blocks",
		Source:    migrate.Source{DSN: "postgres://u:secret@src.internal:5433/mono"},
		Databases: []migrate.Database{
			{Name: "db0", DSN: "host=/run/pg port=5434 dbname=app user=u", Router: migrate.Address{Host: "db0.internal"}},
			{Name: "db1", DSN: "postgres://u@h1:5001,h2:5002/app1", Reader: migrate.Address{Host: "db1-replica", Port: 6000}},
		},
		Shards: migrate.Shards{Count: 3, Schema: "shard_%03d", Placement: []string{"db0", "db1", "db0"}},
		Tables: []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "block"}}, {Name: migrate.TableName{Schema: "app", Name: "t"}}},
	}
}

func owners(a, b string, epochs ...int64) []store.Ownership {
	return []store.Ownership{{Database: "db0", Shards: []int{0, 2}, Owner: a, Epoch: epochs[0]}, {Database: "db1", Shards: []int{1}, Owner: b, Epoch: epochs[1]}}
}

func build(t *testing.T, s *migrate.Spec, o []store.Ownership) topology.Topology {
	t.Helper()
	doc, err := topology.Build(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestBuildPartlyMoved(t *testing.T) {
	doc := build(t, spec(), owners("db0", "source", 7, 1))
	got, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"migration":"blocks","epoch":7,"shards":[` +
		`{"shard":0,"database":"db0","host":"db0.internal","port":5434,"dbname":"app","schema":"shard_000","epoch":7,"reader":{"host":"db0.internal","port":5434,"dbname":"app"},"search_path":["shard_000","public","app"]},` +
		`{"shard":1,"database":"source","host":"src.internal","port":5433,"dbname":"mono","schema":"shard_001","epoch":1,"reader":{"host":"src.internal","port":5433,"dbname":"mono"},"search_path":["shard_001","public","app"]},` +
		`{"shard":2,"database":"db0","host":"db0.internal","port":5434,"dbname":"app","schema":"shard_002","epoch":7,"reader":{"host":"db0.internal","port":5434,"dbname":"app"},"search_path":["shard_002","public","app"]}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBuildAddresses(t *testing.T) {
	s := spec()
	s.Source.ReadDSN = "postgres://u@replica:5435/mono"
	doc := build(t, s, owners("source", "db1", 3, 4))
	if got := doc.Shards[0].Reader.String(); got != "replica:5435/mono" {
		t.Errorf("reader of the source: %s", got)
	}
	moved := doc.Shards[1]
	if moved.Primary().String() != "h1:5001/app1" || moved.Address("reader").String() != "db1-replica:6000/app1" || moved.Address("primary") != moved.Primary() {
		t.Errorf("db1: %s, reader %s", moved.Primary(), moved.Reader)
	}
}

func TestBuildWithoutRowsIsAllOnSource(t *testing.T) {
	doc := build(t, spec(), nil)
	for _, r := range doc.Shards {
		if r.Database != "source" || r.Epoch != 0 || r.Host != "src.internal" {
			t.Errorf("%+v", r)
		}
	}
}

func TestBuildPlainSchema(t *testing.T) {
	s := spec()
	s.Shards.Schema = "app"
	doc := build(t, s, nil)
	if got := strings.Join(doc.Shards[1].SearchPath, ","); got != "app,public" || doc.Shards[1].Schema != "app" {
		t.Errorf("search path %s", got)
	}
}

func TestBuildRefuses(t *testing.T) {
	bad := spec()
	bad.Databases[0].DSN = "postgres://u:planted@h:notaport/x"
	for name, c := range map[string]struct {
		spec   *migrate.Spec
		owners []store.Ownership
	}{
		"a shard without owner":       {spec(), owners("db0", "source", 1, 1)[:1]},
		"a shard with two":            {spec(), append(owners("db0", "db1", 1, 1), store.Ownership{Database: "db1", Owner: "db1", Shards: []int{2}})},
		"a shard out of range":        {spec(), append(owners("db0", "db1", 1, 1), store.Ownership{Database: "db1", Owner: "db1", Shards: []int{3}})},
		"an unknown owner":            {spec(), owners("db0", "db9", 1, 1)},
		"one database owns another's": {spec(), owners("db1", "db1", 1, 1)},
		"a broken DSN":                {bad, nil},
	} {
		if _, err := topology.Build(c.spec, c.owners); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
