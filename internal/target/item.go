package target

import (
	"context"
	_ "embed" // the query
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// item is an object with all that is made together with it, in one transaction.
type item struct {
	kind       string // schema, type, function, collation, sequence, table; "" for ours, which may be made again
	name       string // quoted; of a function with its argument types
	group      string // items of one group are made in one transaction
	need       *blueprint.Need
	statements []ddl.Statement
}

// key names an object in the registry and on the database.
func (i item) key() string { return i.kind + " " + i.name }

//go:embed existing.sql
var existingSQL string

// existing finds which of the items are on the database.
func existing(ctx context.Context, q postgres.Querier, items []item) (map[string]bool, error) {
	var kinds, names []string
	for _, i := range items {
		if i.kind != "" {
			kinds, names = append(kinds, i.kind), append(names, i.name)
		}
	}
	rows, err := q.Query(ctx, existingSQL, kinds, names)
	if err != nil {
		return nil, fmt.Errorf("look for what is there: %w", err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for what is there: %w", err)
	}
	out := map[string]bool{}
	for _, key := range there {
		out[key] = true
	}
	return out, nil
}

// lacking leaves out the items that are there: made before, or the user's own and
// the same. Of what is there and not ours, what could be mistaken is refused.
func lacking(ctx context.Context, conn postgres.Querier, items []item, registered map[string]bool) ([]item, error) {
	there, err := existing(ctx, conn, items)
	if err != nil {
		return nil, err
	}
	var out []item
	var theirs []blueprint.Need
	var failures migrate.Failures
	for _, i := range items {
		switch {
		case !there[i.key()]:
			out = append(out, i)
		case i.kind == "schema", registered[i.key()]:
		case i.need != nil:
			theirs = append(theirs, *i.need)
		default:
			failures = append(failures, foreign(ctx, conn, i))
		}
	}
	if len(failures) > 0 {
		return nil, failures
	}
	return out, same(ctx, conn, theirs)
}

// foreign refuses a table or sequence that is not ours.
func foreign(ctx context.Context, conn postgres.Querier, i item) *migrate.Failure {
	message := "a " + i.kind + " of this name is there already, and shardctl did not make it"
	if i.kind == "table" {
		var rows bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+i.name+")").Scan(&rows); err == nil && rows {
			message = "a table of this name is there already and holds rows that shardctl did not write"
		}
	}
	return migrate.Refuse("target.not_ours", i.name, message, "drop or rename it, or name another schema in shards.schema")
}

// same refuses definitions of the user's that differ from the source's.
func same(ctx context.Context, conn postgres.Querier, needs []blueprint.Need) error {
	kinds, names := make([]string, len(needs)), make([]string, len(needs))
	for i, n := range needs {
		kinds[i], names[i] = n.Kind, n.Name
	}
	there, err := blueprint.Describe(ctx, conn, kinds, names)
	if err != nil {
		return err
	}
	create := map[string]string{}
	for _, n := range there {
		create[n.Kind+" "+n.Name] = n.Create
	}
	var failures migrate.Failures
	for _, n := range needs {
		// Who may call a function does not make it another one.
		have, _, _ := strings.Cut(create[n.Kind+" "+n.Name], ";\nREVOKE ALL ON ROUTINE")
		want, _, _ := strings.Cut(n.Create, ";\nREVOKE ALL ON ROUTINE")
		if have != want {
			failures = append(failures, migrate.Refuse("target.differs", n.Kind+" "+n.Name, "it is there already, but defined otherwise than on the source",
				"make both definitions the same"))
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}

// registered are the keys of what the registry has for a database.
func registered(ctx context.Context, source postgres.Querier, migration, database string) (map[string]bool, error) {
	objects, err := store.Registered(ctx, source, migration, database)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, o := range objects {
		out[o.Kind+" "+o.Name] = true
	}
	return out, nil
}
