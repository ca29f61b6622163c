package blueprint

import (
	"context"
	_ "embed" // the query
)

//go:embed grants.sql
var grantsSQL string

func (r *reader) readGrants(ctx context.Context, b *Blueprint) (out []Grant, err error) {
	sequences, functions := []string{}, []string{}
	for _, s := range b.Sequences {
		sequences = append(sequences, s.Regclass)
	}
	for _, n := range append(append([]Need{}, b.Needs...), b.Handlers...) {
		if n.Kind == "function" {
			functions = append(functions, n.Name)
		}
	}
	var g Grant
	scans := []any{&g.Kind, &g.Object.Schema, &g.Object.Name, &g.Function, &g.Column, &g.Grantee, &g.Privilege, &g.Grantable}
	err = r.each(ctx, "grants", grantsSQL, []any{r.roots, sequences, functions}, scans, func() error {
		out = append(out, g)
		return nil
	})
	return out, err
}
