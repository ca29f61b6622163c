package layout

import (
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// noKey settles what becomes of a row whose key comes out NULL. For a derived
// table that may be for three reasons: its via is NULL, its parent is missing,
// or the root's key is NULL. A row must follow its parent, and the SQL that
// computes a shard sees only that there is no key; so the policies of all
// reasons that can occur must agree. A reason that is refused does not occur.
func (l *Layout) noKey(t *Table) *migrate.Failure {
	if t.Key == nil {
		return nil
	}
	var reasons []reason
	root := t.Root()
	if !root.Key.NotNull {
		reasons = append(reasons, reason{root, "null_keys", root.Spec.NullKeys})
	}
	for d := t; d.Parent != nil; d = d.Parent {
		if !d.Via.NotNull {
			reasons = append(reasons, reason{d, "null_keys", d.Spec.NullKeys})
		}
		reasons = append(reasons, reason{d, "orphans", d.Spec.Orphans})
	}
	var settled *reason
	for i, r := range reasons {
		if r.stray.Policy == "refuse" || r.stray.Policy == "" {
			continue
		}
		if settled == nil {
			settled = &reasons[i]
		} else if settled.stray != r.stray {
			return migrate.Refuse("key.policies", t.Name(), fmt.Sprintf("%s and %s disagree about rows without a key", settled, r),
				"give both the same policy, or refuse")
		}
	}
	t.NoKey = migrate.Stray{Policy: "refuse"}
	if settled != nil {
		t.NoKey = settled.stray
	}
	return nil
}

// reason is one way for a row to have no key, with the policy for it.
type reason struct {
	table  *Table
	option string
	stray  migrate.Stray
}

// String words a reason as the spec has it.
func (r reason) String() string {
	policy := r.stray.Policy
	if policy == "shard" {
		policy = fmt.Sprintf("{shard: %d}", r.stray.Shard)
	}
	return fmt.Sprintf("%s %s: %s", r.table.Name(), r.option, policy)
}
