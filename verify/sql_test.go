package verify

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenLayout has a table with a key of its own, one that is derived from it and
// stores the key, and one that is everywhere.
func goldenLayout(t *testing.T) *layout.Layout {
	t.Helper()
	column := func(name, typ string) catalog.Column {
		return catalog.Column{Name: name, TypeName: typ, BaseType: typ, BuiltIn: true, NotNull: true, Deterministic: true}
	}
	table := func(name string, columns ...catalog.Column) *catalog.Table {
		return &catalog.Table{Name: migrate.TableName{Schema: "public", Name: name}, Kind: 'r', Columns: columns,
			PrimaryKey: []string{columns[0].Name}, KeyEqual: []string{"OPERATOR(pg_catalog.=)"}}
	}
	block, comment, plan := table("block", column("id", "uuid"), column("ws", "bigint"), column("props", "jsonb")),
		table("Comment", column("id", "bigint"), column("block_id", "uuid"), column("body", "text")), table("plan", column("id", "text"), column("price", "numeric"))
	spec := &migrate.Spec{Migration: "m", Databases: []migrate.Database{{Name: "db0"}, {Name: "db1"}},
		Shards: migrate.Shards{Count: 4, Schema: "shard_%d", Placement: []string{"db0", "db0", "db1", "db1"}},
		Tables: []migrate.Table{{Name: block.Name, Key: migrate.Key{Column: "ws"}},
			{Name: comment.Name, Key: migrate.Key{From: block.Name, Via: "block_id", StoreAs: "ws"}, Orphans: migrate.Stray{Policy: "skip"}},
			{Name: plan.Name, Everywhere: true}}}
	l, err := layout.New(spec, map[migrate.TableName]*catalog.Table{block.Name: block, comment.Name: comment, plan.Name: plan})
	must(t, err)
	return l
}

func TestSQLIsAsItWasReviewed(t *testing.T) {
	t.Parallel()
	l := goldenLayout(t)
	v := New(Config{Layout: l})
	for _, name := range []string{"db0", "db1"} {
		v.databases = append(v.databases, &server{number: len(v.databases)})
		v.databases[len(v.databases)-1].Name = name
	}
	b := builder{layout: l, digests: digester{records: true}}
	var out strings.Builder
	say := func(what, sql string) { out.WriteString("-- " + what + "\n" + sql + ";\n\n") }
	for _, table := range l.Tables {
		places := v.places(table, v.databases[1])
		where := pages(true, 10, 20, 0)
		say(table.Name()+": scan the source", b.scanSource(table, table.QualifiedSource(), where))
		say(table.Name()+": scan a place", b.scanTarget(table, places[0], places[0].table, where))
		say(table.Name()+": look up on the source", b.lookup(table, nil, false))
		say(table.Name()+": look up at places, column by column", b.lookup(table, places, true))
		say(table.Name()+": entries beyond a position", b.touched(table, true))
		say(table.Name()+": a page of the log", b.entries(table, 0, false, 10))
		say(table.Name()+": find keys by hash", b.findKeys(table, table.QualifiedSource(), pages(true, 10, -1, 0)))
		say(table.Name()+": neighbours", nextKeys(table, table.QualifiedSource(), 5))
	}
	say("children", childKeys(l.Tables[1]))
	say("busy", b.busy(l.Tables[:2], true))
	say("rotated", "SELECT "+rotated)
	say("pages before PostgreSQL 14", pages(false, 10, -1, 25))
	old := digester{convert: true}
	say("digest before PostgreSQL 14, in another encoding", old.row("a", l.Tables[0].Copied(), "0")+", "+old.key([]string{"a.id"}, l.Tables[2].PK))

	const golden = "testdata/sql.golden"
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if out.String() != string(want) {
		t.Errorf("the SQL changed; read it, then run with -update:\n%s", out.String())
	}
}
