package preflight

import (
	"context"

	"github.com/shardctl/shardctl/migrate"
)

// sequences: continuing from the source's value on several databases hands out the
// same numbers twice, unless the primary key holds the shard key.
func sequences(_ context.Context, s *Survey) (found []migrate.Finding, err error) {
	if s.Spec.Sequences != "keep" || len(s.Spec.Databases) == 1 {
		return nil, nil
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
