package blueprint

import (
	"context"
	_ "embed" // the query
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed policies.sql
var policiesSQL string

// readPolicies reads policies under a search_path of the source's schemas, so
// that a table that a policy reads is named without its schema and is found
// where the policy is made.
func (r *reader) readPolicies(ctx context.Context, l *layout.Layout) (err error) {
	path := postgres.Idents("", l.Spec.SourceSchemas())
	if _, err := r.q.Exec(ctx, "SELECT set_config('search_path', $1, false)", "pg_catalog, "+path); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	defer func() {
		ctx, cancel := postgres.Cleanup(ctx)
		defer cancel()
		if _, resetErr := r.q.Exec(ctx, "SET search_path = pg_catalog"); err == nil && resetErr != nil {
			err = fmt.Errorf("set search_path: %w", resetErr)
		}
	}()
	var rel uint32
	var p Policy
	var reads []uint32
	return r.each(ctx, "policies", policiesSQL, []any{r.roots}, []any{&rel, &p.Name, &p.Permissive, &p.Command, &p.Roles, &p.Using, &p.Check, &reads}, func() error {
		t := r.tables[rel]
		for _, oid := range reads {
			if !readable(l, t, r.relations[oid]) {
				return migrate.Refuse("policy.reads_table", t.Layout.Name(), "its policy "+p.Name+" reads a table that is not at the same location under the same name",
					"add that table to the spec without as:, or change the policy")
			}
		}
		t.Policies = append(t.Policies, p)
		return nil
	})
}

// readable reports whether a policy finds a table at its own location.
func readable(l *layout.Layout, t *Table, other *Relation) bool {
	if other == nil {
		return false
	}
	i := slices.IndexFunc(l.Tables, func(o *layout.Table) bool { return o.Source.OID == other.OID })
	return i >= 0 && l.Tables[i].Spec.As == "" && (l.Tables[i].Everywhere() || !t.Layout.Everywhere())
}
