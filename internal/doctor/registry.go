package doctor

import (
	"context"
	_ "embed" // the queries
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

//go:embed registry.sql
var registrySQL string

//go:embed leftovers.sql
var leftoversSQL string

// registry: what is registered is there, and what is there of ours is registered.
func registry(ctx context.Context, e *Exam) error {
	if err := e.registryOf(ctx, store.PlaceSource, e.cfg.Source); err != nil {
		return err
	}
	return e.each(func(name string, conn *pgx.Conn) error {
		if _, prepared := e.copies[name]; !prepared {
			return nil
		}
		return e.registryOf(ctx, name, conn)
	})
}

func (e *Exam) registryOf(ctx context.Context, place string, conn *pgx.Conn) error {
	objects, err := store.Registered(ctx, e.cfg.Source, e.name(), place)
	if err != nil {
		return err
	}
	kinds, names := make([]string, len(objects)), make([]string, len(objects))
	for i, o := range objects {
		kinds[i], names[i] = o.Kind, o.Name
	}
	missing, err := pairs(ctx, conn, registrySQL, kinds, names)
	if err != nil {
		return fmt.Errorf("compare the registry: %w", err)
	}
	m := e.name()
	var ours []string
	if place != store.PlaceSource {
		ours = slices.Concat(fence.DatabaseTables(e.layout, place), fence.EverywhereTables(e.layout, place))
	}
	with := []string{logschema.ClosedTrigger(m), logschema.GuardTrigger(m), logschema.StoreTrigger(m), logschema.HandDownTrigger(m)}
	left, err := pairs(ctx, conn, leftoversSQL, m, names, ours, with)
	if err != nil {
		return fmt.Errorf("look for left-overs: %w", err)
	}
	if len(missing) > 0 {
		e.add(Broken, "registry", place, "if it was dropped by hand: shardctl doctor --acknowledge-ddl makes capture and fences again; tables need a person",
			"registered and missing: %s", listed(missing))
	}
	if len(left) > 0 {
		e.add(Warning, "registry.leftover", place, "drop it, if no other migration needs it", "there and not registered: %s", listed(left))
	}
	if len(missing)+len(left) == 0 {
		e.add(OK, "registry", place, "", "all %d registered objects are there, and no others", len(objects))
	}
	return nil
}

func pairs(ctx context.Context, q postgres.Querier, sql string, args ...any) ([]string, error) {
	for i, a := range args {
		if list, ok := a.([]string); ok && list == nil {
			args[i] = []string{}
		}
	}
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var kind, name string
		err := r.Scan(&kind, &name)
		return kind + " " + name, err
	})
}

// listed names the first of many.
func listed(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
