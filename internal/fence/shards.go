package fence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Refused is the SQLSTATE of a write that a fence refused; Misplaced that of one
// that the placement guard did.
const (
	Refused   = "25006" // read_only_sql_transaction
	Misplaced = "23514" // check_violation
)

// shardList is an int[] constant of shards.
func shardList(shards []int) string {
	parts := make([]string, len(shards))
	for i, s := range shards {
		parts[i] = strconv.Itoa(s)
	}
	return "'{" + strings.Join(parts, ",") + "}'::int[]"
}

// place of a database in the spec, from 1.
func place(l *layout.Layout, database string) int {
	return slices.IndexFunc(l.Spec.Databases, func(d migrate.Database) bool { return d.Name == database }) + 1
}

// noKeyShard is the SQL for the shard of rows without a key.
func noKeyShard(t *layout.Table) string {
	if t.NoKey.Policy == "shard" {
		return strconv.Itoa(t.NoKey.Shard)
	}
	return "NULL"
}

// function gives the quoted name of one of our functions.
func function(name string) string { return postgres.Table(logschema.Schema, name) }

// hits is the sequence that counts refusals.
func hits(l *layout.Layout, where string) ddl.Statement {
	name := function(logschema.FenceHits(l.Spec.Migration))
	return ddl.Statement{SQL: "CREATE SEQUENCE IF NOT EXISTS " + name, Object: store.Object{Migration: l.Spec.Migration, Place: where,
		Kind: "sequence", Name: name, Undo: "DROP SEQUENCE IF EXISTS " + name}}
}

// count is the statement, in a function, that counts a refusal.
func count(migration string) string {
	return fmt.Sprintf("PERFORM nextval(%s);", postgres.Literal(function(logschema.FenceHits(migration))))
}
