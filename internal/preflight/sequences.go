package preflight

import (
	"context"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// insufficientPrivilege is the server's code for what a role may not do.
const insufficientPrivilege = "42501"

// sequences: continuing from the source's value on several databases hands out the
// same numbers twice, unless the primary key holds the shard key.
func sequences(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	if len(s.Spec.Databases) == 1 {
		return nil, nil
	}
	if s.Spec.Sequences != "keep" {
		return lanes(ctx, s)
	}
	for _, t := range s.Layout.Tables {
		if t.Everywhere() || t.Key == nil {
			continue
		}
		holds := false
		for _, c := range t.PK {
			holds = holds || (!t.Derived() && c.Name == t.Key.Name)
		}
		for _, c := range t.PK {
			if !holds && (c.Identity != "" || c.Default != "" && c.BaseType != "uuid") {
				found = append(found, blocking("sequence.keep", t.Name()+"."+c.Name, "with sequences: keep several databases hand out the same numbers; use stride"))
			}
		}
	}
	return found, nil
}

// lanes: each begins past the source's value, further on for every writer, and steps over
// the others' numbers. Where too few are left, a switch would be refused after all the work.
func lanes(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	err = cutover.LaneRoom(ctx, s.Layout, s.Source)
	if postgres.SQLState(err) == insufficientPrivilege {
		return []migrate.Finding{blocking("privilege.sequence", "source", "the role may not read a sequence that a table draws from: "+err.Error())}, nil
	}
	if found = refusals(err); found != nil {
		return found, nil
	}
	return nil, err
}
