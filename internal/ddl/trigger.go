package ddl

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// SkipApplier is the condition by which every trigger of ours lets the
// migration's applier pass.
func SkipApplier(migration string) string {
	return fmt.Sprintf("WHEN (pg_catalog.current_setting(%s, true) IS DISTINCT FROM %s)",
		postgres.Literal(logschema.ApplierSetting), postgres.Literal(migration))
}

// Trigger is a trigger of ours on a relation (quoted). Moment is "AFTER INSERT OR
// DELETE", what the rest: FOR EACH …, WHEN, EXECUTE FUNCTION. State is "ENABLE
// ALWAYS", since replica-role sessions slip by others, or "DISABLE".
func Trigger(migration, place, name, relation, moment, what, state string) Statement {
	quoted := postgres.Ident(name)
	return Statement{
		SQL: fmt.Sprintf("CREATE TRIGGER %s %s ON %s %s;\nALTER TABLE ONLY %s %s TRIGGER %s", quoted, moment, relation, what, relation, state, quoted),
		Object: store.Object{Migration: migration, Place: place, Kind: "trigger", Name: triggerObject(quoted, relation),
			Undo: fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", quoted, relation)},
	}
}

func triggerObject(quoted, relation string) string { return quoted + " ON " + relation }

// LackingTriggers leaves out the statements whose trigger is there already:
// PostgreSQL 13 cannot create a trigger "or replace" it.
func LackingTriggers(ctx context.Context, q postgres.Querier, statements []Statement) ([]Statement, error) {
	const sql = `SELECT format('"%s" ON "%s"."%s"', replace(t.tgname, '"', '""'), replace(n.nspname, '"', '""'), replace(c.relname, '"', '""'))
	FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE t.tgname LIKE 'shardctl\_%'`
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read triggers from the catalog: %w", err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read triggers from the catalog: %w", err)
	}
	have := make(map[string]bool, len(there))
	for _, name := range there {
		have[name] = true
	}
	var lacking []Statement
	for _, s := range statements {
		if s.Object.Kind != "trigger" || !have[s.Object.Name] {
			lacking = append(lacking, s)
		}
	}
	return lacking, nil
}
