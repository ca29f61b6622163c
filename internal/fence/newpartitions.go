package fence

import (
	"context"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// Unclosed lists the partitions that were attached on a database since it was prepared
// and have no closed fence: the server copies row triggers only.
func Unclosed(ctx context.Context, q postgres.Querier, l *layout.Layout, database string) (sharded, everywhere []string, err error) {
	if sharded, err = unclosed(ctx, q, l, DatabaseTables(l, database)); err != nil {
		return nil, nil, err
	}
	everywhere, err = unclosed(ctx, q, l, EverywhereTables(l, database))
	return sharded, everywhere, err
}

func unclosed(ctx context.Context, q postgres.Querier, l *layout.Layout, tables []string) (out []string, err error) {
	triggers, err := loadTriggers(ctx, q, tables, []string{logschema.ClosedTrigger(l.Spec.Migration)})
	for _, t := range triggers {
		if t.enabled == "" && t.relation != "" {
			out = append(out, t.relation)
		}
	}
	return out, err
}

// CloseNew makes the closed fence of Unclosed's partitions. It stands, but on sharded
// tables of a database that is open, where it sleeps until the way back.
func CloseNew(ctx context.Context, tx postgres.Querier, l *layout.Layout, database string, open bool) error {
	sharded, everywhere, err := Unclosed(ctx, tx, l, database)
	if err != nil {
		return err
	}
	var statements []ddl.Statement
	for _, relation := range append(sharded, everywhere...) {
		statements = append(statements, Closed(l, relation))
	}
	if open {
		for _, relation := range sharded {
			statements = append(statements, ddl.Alter("ALTER TABLE ONLY %s DISABLE TRIGGER %s", relation, postgres.Ident(logschema.ClosedTrigger(l.Spec.Migration))))
		}
	}
	return ddl.Exec(ctx, tx, statements)
}
