package blueprint

import (
	"context"
	_ "embed" // the queries
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed depends.sql
var dependsSQL string

//go:embed describe.sql
var describeSQL string

//go:embed names.sql
var namesSQL string

// node is an object in the catalog.
type node struct{ class, oid int64 }

// graph is what tables need.
type graph struct {
	kind  map[node]string
	what  map[node]string // words
	needs map[node][]node
	order []node // as first seen
}

// readNeeds reads what the definitions of all tables need, or what their triggers
// need, in the order in which it can be created.
func (r *reader) readNeeds(ctx context.Context, triggers bool) ([]Need, error) {
	g, err := r.readGraph(ctx, triggers)
	if err != nil {
		return nil, err
	}
	var kinds []string
	var oids []int64
	for _, n := range g.sorted() {
		switch g.kind[n] {
		case "":
		case "extension":
			r.extensions = append(r.extensions, g.what[n])
		case "type", "function", "collation":
			kinds, oids = append(kinds, g.kind[n]), append(oids, n.oid)
		default:
			return nil, migrate.Refuse("definition.not_copied", g.what[n], "the tables use it, and a "+g.kind[n]+" is not copied",
				"make the tables do without it, or bring it in an extension that is on the databases too")
		}
	}
	names := make([]string, len(oids))
	var kind, name string
	var oid int64
	err = r.each(ctx, "names", namesSQL, []any{kinds, oids}, []any{&kind, &oid, &name}, func() error {
		names[slices.Index(oids, oid)] = name
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Describe(ctx, r.q, kinds, names)
}

func (r *reader) readGraph(ctx context.Context, triggers bool) (*graph, error) {
	g := &graph{kind: map[node]string{}, what: map[node]string{}, needs: map[node][]node{}}
	var n, by node
	var kind, what string
	err := r.each(ctx, "dependencies", dependsSQL, []any{r.oids, triggers}, []any{&n.class, &n.oid, &by.class, &by.oid, &kind, &what}, func() error {
		if _, seen := g.kind[n]; !seen {
			g.order = append(g.order, n)
		}
		g.kind[n], g.what[n] = kind, what
		if by.oid != 0 {
			g.needs[by] = append(g.needs[by], n)
		}
		return nil
	})
	return g, err
}

// sorted gives all objects, what is needed before what needs it.
func (g *graph) sorted() []node {
	var out []node
	done := map[node]bool{}
	var visit func(node)
	visit = func(n node) {
		if done[n] {
			return
		}
		done[n] = true
		for _, needed := range g.needs[n] {
			visit(needed)
		}
		out = append(out, n)
	}
	for _, n := range g.order {
		visit(n)
	}
	return out
}

// Describe gives the definitions of objects by kind and quoted name, in the given
// order; those that are not there are left out.
func Describe(ctx context.Context, q postgres.Querier, kinds, names []string) ([]Need, error) {
	rows, err := q.Query(ctx, describeSQL, kinds, names)
	if err != nil {
		return nil, fmt.Errorf("read types and functions: %w", err)
	}
	type key struct{ kind, name string }
	found := map[key]Need{}
	var n Need
	_, err = pgx.ForEachRow(rows, []any{&n.Kind, &n.Name, &n.Schema, &n.Owner, &n.Create}, func() error {
		found[key{n.Kind, n.Name}] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read types and functions: %w", err)
	}
	var out []Need
	for i := range kinds {
		if need, ok := found[key{kinds[i], names[i]}]; ok {
			out = append(out, need)
		}
	}
	return out, nil
}

func without(list, other []Need) []Need {
	return slices.DeleteFunc(list, func(n Need) bool {
		return slices.ContainsFunc(other, func(o Need) bool { return o.Kind == n.Kind && o.Name == n.Name })
	})
}
