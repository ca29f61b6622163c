package auditlog_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestCaptureSQL shows the whole SQL of capture for a reader.
func TestCaptureSQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, database string
		count          int
	}{{"capture_source", "", 4}, {"capture_database", "db0", 4}, {"capture_one_shard", "", 1}} {
		t.Run(c.name, func(t *testing.T) {
			l := paperLayout(t, c.count)
			got := ddl.Script(auditlog.Statements(auditlog.Side{Layout: l, Database: c.database})) + ";\n"
			golden(t, c.name+".sql", got)
		})
	}
}

// paperLayout is a layout without a server: a partitioned table with its own key, one
// derived from it with a stored key, one everywhere.
func paperLayout(t *testing.T, count int) *layout.Layout {
	t.Helper()
	block, comment, plan := migrate.TableName{Schema: "public", Name: "block"}, migrate.TableName{Schema: "public", Name: "comment"}, migrate.TableName{Schema: "ref", Name: "plan"}
	bigint := func(name string, notNull bool) catalog.Column {
		return catalog.Column{Name: name, TypeName: "bigint", BaseType: "bigint", BuiltIn: true, NotNull: notNull, Deterministic: true}
	}
	equal := []string{"OPERATOR(pg_catalog.=)"}
	tables := map[migrate.TableName]*catalog.Table{
		block: {Name: block, Kind: 'p', PrimaryKey: []string{"id"}, KeyEqual: equal, Columns: []catalog.Column{bigint("id", true), bigint("workspace_id", true)},
			Leaves: []catalog.Relation{{Name: migrate.TableName{Schema: "parts", Name: "block_1"}}}},
		comment: {Name: comment, Kind: 'r', PrimaryKey: []string{"block_id", "no"}, KeyEqual: append(equal, equal...), Columns: []catalog.Column{bigint("block_id", true),
			{Name: "no", TypeName: "character(4)", BaseType: "character", NotNull: true, Collation: `pg_catalog."C"`, Deterministic: true}}},
		plan: {Name: plan, Kind: 'r', PrimaryKey: []string{"id"}, KeyEqual: equal, Columns: []catalog.Column{bigint("id", true)}},
	}
	spec := &migrate.Spec{Migration: "m", Databases: []migrate.Database{{Name: "db0"}}, Shards: migrate.Shards{Count: count, Schema: "shard_%d"},
		Tables: []migrate.Table{{Name: block, Key: migrate.Key{Column: "workspace_id"}},
			{Name: comment, Key: migrate.Key{From: block, Via: "block_id", StoreAs: "workspace_id"}}, {Name: plan, Everywhere: true}}}
	for range count {
		spec.Shards.Placement = append(spec.Shards.Placement, "db0")
	}
	l, err := layout.New(spec, tables)
	must(t, err)
	return l
}

// golden compares with a file of testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s differs from what is built; look at the difference and run the test with -update:\n%s", path, got)
	}
}
