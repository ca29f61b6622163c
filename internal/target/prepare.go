package target

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Prepare makes on a database what the copy needs: schemas, types, functions,
// sequences, tables with primary keys, closed. Schema shardctl is there already, on
// both sides. It may be run again after it was killed anywhere. The source's session
// must not be inside a transaction.
func Prepare(ctx context.Context, source postgres.Querier, conn *pgx.Conn, l *layout.Layout, database string) error {
	b, err := blueprint.Read(ctx, source, l)
	if err != nil {
		return err
	}
	r, err := loadRoles(ctx, conn)
	if err != nil {
		return err
	}
	p, err := newPlan(b, database, r, true)
	if err != nil {
		return err
	}
	ours, err := registered(ctx, source, p.migration(), database)
	if err != nil {
		return err
	}
	items := p.prepareItems()
	if err := stillOurs(ctx, conn, p, items, ours); err != nil {
		return err
	}
	items, err = lacking(ctx, conn, items, ours)
	if err != nil {
		return err
	}
	return create(ctx, source, conn, items)
}

// create registers all items, then makes them group by group.
func create(ctx context.Context, source postgres.Querier, conn *pgx.Conn, items []item) error {
	var all []ddl.Statement
	groups := map[string][]ddl.Statement{}
	var order []string
	for _, i := range items {
		all = append(all, i.statements...)
		if groups[i.group] == nil {
			order = append(order, i.group)
		}
		groups[i.group] = append(groups[i.group], i.statements...)
	}
	if err := store.Register(ctx, source, ddl.Objects(all)...); err != nil {
		return err
	}
	for _, group := range order {
		if err := ddl.Run(ctx, conn, groups[group]); err != nil {
			return err
		}
	}
	return nil
}

// stillOurs refuses tables that are registered but were dropped and made anew by
// somebody else since: ours carry the closed fence.
func stillOurs(ctx context.Context, conn *pgx.Conn, p *plan, items []item, ours map[string]bool) error {
	const sql = `SELECT t.name FROM unnest($1::text[]) t(name) WHERE to_regclass(t.name) IS NOT NULL
	AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = to_regclass(t.name) AND g.tgname = $2)`
	names := []string{}
	for _, i := range items {
		if i.kind == "table" && ours[i.key()] {
			names = append(names, i.name)
		}
	}
	rows, err := conn.Query(ctx, sql, names, logschema.ClosedTrigger(p.migration()))
	if err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	bare, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	var failures migrate.Failures
	for _, i := range items {
		if slices.Contains(bare, i.name) {
			failures = append(failures, foreign(ctx, conn, i))
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}
