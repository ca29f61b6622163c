package migrate

import (
	"reflect"
	"testing"
)

func placedSpec(schema string) *Spec {
	return &Spec{
		Databases: []Database{{Name: "db0"}, {Name: "db1"}},
		Shards:    Shards{Count: 4, Schema: schema, Placement: []string{"db0", "db1", "db0", "db1"}},
		Tables: []Table{
			{Name: TableName{"public", "comment"}, Key: Key{From: TableName{"public", "block"}, Via: "block_id"}},
			{Name: TableName{"public", "block"}, Key: Key{Column: "workspace_id"}, As: "blocks"},
			{Name: TableName{"ref", "plan"}, Everywhere: true},
			{Name: TableName{"public", "reaction"}, Key: Key{From: TableName{"public", "comment"}, Via: "comment_id"}},
		},
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		pattern string
		shard   int
		want    string
	}{
		{"shard_%03d", 7, "shard_007"},
		{"shard_%03d", 1234, "shard_1234"},
		{"s%dx", 12, "s12x"},
		{"%05d", 12, "00012"},
		{"app", 3, "app"},
	} {
		if got := Number(c.pattern, c.shard); got != c.want {
			t.Errorf("Number(%q, %d) = %q, want %q", c.pattern, c.shard, got, c.want)
		}
	}
}

func TestLocationsWithASchemaPerShard(t *testing.T) {
	s := placedSpec("shard_%03d")
	if got, want := s.LocationOf(2), (Location{"db0", "shard_002"}); got != want {
		t.Errorf("LocationOf(2) = %v, want %v", got, want)
	}
	equal(t, s.LocationsOf("db1"), []Location{{"db1", "shard_001"}, {"db1", "shard_003"}})
	equal(t, s.TableLocations(s.Tables[2], "db1"), []Location{{"db1", "ref"}})
	equal(t, s.Schemas("db0"), []string{"shard_000", "shard_002", "ref"})
	equal(t, s.SourceSchemas(), []string{"public", "ref"})
	equal(t, s.Shards.ShardsOf("db0"), []int{0, 2})
	equal(t, s.Shards.ShardsOf("db9"), []int(nil))
	equal(t, s.Shards.DatabaseOf(4), "")
}

func TestLocationsWithAPlainSchemaAreOnePerDatabase(t *testing.T) {
	s := placedSpec("app")
	equal(t, s.LocationsOf("db1"), []Location{{"db1", "app"}})
	equal(t, s.TableLocations(s.Tables[2], "db1"), []Location{{"db1", "app"}})
	equal(t, s.Schemas("db0"), []string{"app"})
	equal(t, s.LocationsOf("db9"), []Location(nil))
}

func TestChains(t *testing.T) {
	s := placedSpec("app")
	names := func(tables []Table) (out []string) {
		for _, t := range tables {
			out = append(out, t.Name.Name)
		}
		return out
	}
	reaction, ok := s.Table(TableName{"public", "reaction"})
	if !ok {
		t.Fatal("reaction is not found")
	}
	equal(t, names(s.Chain(reaction)), []string{"reaction", "comment", "block"})
	equal(t, s.Root(reaction).Name.Name, "block")
	equal(t, s.Root(reaction).TargetName(), "blocks")
	equal(t, names(s.Children(s.Tables[1])), []string{"comment"})
	equal(t, names(s.DependencyOrder()), []string{"plan", "block", "comment", "reaction"})
	if _, ok := s.Parent(s.Tables[1]); ok {
		t.Error("a table with a key of its own has a parent")
	}
}

func TestChainOfACycleEnds(t *testing.T) {
	s := placedSpec("app")
	s.Tables[1].Key = Key{From: TableName{"public", "comment"}, Via: "x"}
	if got := len(s.Chain(s.Tables[0])); got > len(s.Tables)+1 {
		t.Errorf("a chain in a cycle has %d tables", got)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
