package auditlog

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Uninstall removes capture from a side, by the registry: triggers are disabled
// first and dropped later, then functions and logs. Fences stay. It may be killed
// anywhere and run again; what is gone is a success.
func Uninstall(ctx context.Context, s Side, source, conn *pgx.Conn) error {
	registered, err := store.Registered(ctx, source, s.migration(), s.Name())
	if err != nil {
		return err
	}
	ours := map[[2]string]bool{}
	for _, o := range ddl.Objects(s.captureStatements()) {
		ours[[2]string{o.Kind, o.Name}] = true
	}
	registered = slices.DeleteFunc(registered, func(o store.Object) bool { return !ours[[2]string{o.Kind, o.Name}] && !s.isTrigger(o) })
	return ddl.Remove(ctx, source, conn, registered)
}

// isTrigger reports whether an object is a trigger of capture, wherever it is: the
// layout knows neither a database's partitions nor those that have come or gone.
func (s Side) isTrigger(o store.Object) bool {
	name, _, _ := strings.Cut(o.Name, " ON ")
	return o.Kind == "trigger" && (name == postgres.Ident(logschema.CaptureTrigger(s.migration())) || name == postgres.Ident(logschema.CaptureTruncateTrigger(s.migration())))
}
