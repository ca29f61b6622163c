package auditlog

import (
	"context"
	_ "embed" // the query
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

//go:embed lost.sql
var lostSQL string

// UninstallLost removes the reverse log from a database whose source, and with it the
// registry, is lost: what is there is found by its name. Otherwise it is Uninstall.
func UninstallLost(ctx context.Context, l *layout.Layout, database string, conn *pgx.Conn) error {
	objects, err := captureObjects(ctx, l, database, conn)
	if err != nil {
		return err
	}
	return ddl.Remove(ctx, nil, conn, objects)
}

// Captured reports whether a database has anything of the reverse log, asking the
// database alone.
func Captured(ctx context.Context, l *layout.Layout, database string, q postgres.Querier) (bool, error) {
	objects, err := captureObjects(ctx, l, database, q)
	return len(objects) > 0, err
}

func captureObjects(ctx context.Context, l *layout.Layout, database string, q postgres.Querier) ([]store.Object, error) {
	m := l.Spec.Migration
	var functions, logs []string
	for _, t := range l.Tables {
		functions = append(functions, logschema.Capture(m, t.No), logschema.CaptureTruncate(m, t.No))
		for segment := range logschema.Segments {
			logs = append(logs, logschema.Log(m, t.No, segment))
		}
	}
	rows, err := q.Query(ctx, lostSQL, []string{logschema.CaptureTrigger(m), logschema.CaptureTruncateTrigger(m)}, functions, logs)
	if err != nil {
		return nil, fmt.Errorf("look for the reverse log: %w", err)
	}
	objects, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (store.Object, error) {
		o := store.Object{Migration: m, Place: database}
		err := r.Scan(&o.Kind, &o.Name, &o.Undo)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the reverse log: %w", err)
	}
	return objects, nil
}
