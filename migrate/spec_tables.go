package migrate

import "slices"

// MaxChain is how many tables a chain of derived keys may pass through, the
// table that has the key included not counted: comment → block is one.
const MaxChain = 4

// TargetName is the table's name on the databases, without a schema.
func (t Table) TargetName() string {
	if t.As != "" {
		return t.As
	}
	return t.Name.Name
}

// Derived reports whether a row finds its shard through a parent row.
func (t Table) Derived() bool { return t.Key.From != TableName{} }

// TargetTable is the table's name on the databases, without a schema.
func (s *Spec) TargetTable(t Table) string { return t.TargetName() }

// Table gives the migrated table of that name on the source.
func (s *Spec) Table(name TableName) (Table, bool) {
	for _, t := range s.Tables {
		if t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

// Parent gives the table that a derived key is looked up in.
func (s *Spec) Parent(t Table) (Table, bool) {
	if !t.Derived() {
		return Table{}, false
	}
	return s.Table(t.Key.From)
}

// Children lists the tables whose keys are derived directly from t, in the
// order of the spec.
func (s *Spec) Children(t Table) []Table {
	var children []Table
	for _, c := range s.Tables {
		if c.Derived() && c.Key.From == t.Name {
			children = append(children, c)
		}
	}
	return children
}

// Chain lists t, its parent, and so on up to the table that has the key. For a
// table with a key of its own it is that table alone.
func (s *Spec) Chain(t Table) []Table {
	chain := []Table{t}
	for len(chain) <= len(s.Tables) { // ends also on a cycle, which Decode refuses
		parent, ok := s.Parent(chain[len(chain)-1])
		if !ok {
			break
		}
		chain = append(chain, parent)
	}
	return chain
}

// Root gives the table at the end of the chain: the one whose column is the key.
func (s *Spec) Root(t Table) Table {
	chain := s.Chain(t)
	return chain[len(chain)-1]
}

// DependencyOrder lists the tables with everywhere tables first and every parent
// before its children, else in the order of the spec.
func (s *Spec) DependencyOrder() []Table {
	tables := slices.Clone(s.Tables)
	rank := func(t Table) int {
		if t.Everywhere {
			return 0
		}
		return len(s.Chain(t))
	}
	slices.SortStableFunc(tables, func(a, b Table) int { return rank(a) - rank(b) })
	return tables
}
