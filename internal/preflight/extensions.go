package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// missingExtensions: what the definitions need of extensions is on the database.
// Prepare copies types and functions, but an extension is an operator's decision.
func missingExtensions(ctx context.Context, conn *pgx.Conn, b *blueprint.Blueprint, database string) (found []migrate.Finding, err error) {
	const there = `SELECT format('%s in %I', extname, nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace`
	have, err := texts(ctx, conn, there)
	if err != nil {
		return nil, err
	}
	for _, needed := range b.Extensions {
		if slices.Contains(have, needed) {
			continue
		}
		name, schema, _ := strings.Cut(needed, " in ")
		found = append(found, blocking("extension.missing", database, "extension "+needed+" is not there",
			fmt.Sprintf("CREATE SCHEMA IF NOT EXISTS %s; CREATE EXTENSION %s SCHEMA %[1]s;", schema, postgres.Ident(name))))
	}
	return found, nil
}
