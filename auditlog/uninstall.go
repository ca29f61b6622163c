package auditlog

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
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
	for _, o := range s.captureObjects() {
		ours[[2]string{o.Kind, o.Name}] = true
	}
	registered = slices.DeleteFunc(registered, func(o store.Object) bool { return !ours[[2]string{o.Kind, o.Name}] })
	return ddl.Remove(ctx, source, conn, registered)
}

// captureObjects are the objects of capture alone.
func (s Side) captureObjects() []store.Object { return ddl.Objects(s.captureStatements()) }
