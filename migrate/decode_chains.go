package migrate

import (
	"fmt"
	"slices"
)

// checkNames refuses a table listed twice and two of one name on the databases,
// where schemas no longer keep them apart.
func (d *decoder) checkNames(entries []tableEntry) {
	for i, e := range entries {
		if !e.named() {
			continue
		}
		for _, earlier := range entries[:i] {
			if !earlier.named() {
				continue
			}
			if e.Name == earlier.Name {
				d.fail(e.at, "duplicate_table", fmt.Sprintf("the table is listed already, in line %d", earlier.at.line), "remove one of them")
				break
			}
			if e.As == earlier.As {
				d.fail(e.asAt, "same_target", fmt.Sprintf("the table has the same name on the databases as %s in line %d", earlier.label, earlier.at.line), "rename one with as:")
				break
			}
		}
	}
}

// named reports whether the names of the table could be read.
func (e tableEntry) named() bool { return e.Name != TableName{} && e.As != "" }

// checkChains follows each derived key to the table that has it.
func (d *decoder) checkChains(entries []tableEntry) {
	parents := make([]int, len(entries))
	for i, e := range entries {
		parents[i] = -1
		if e.Derived() {
			parents[i] = d.parent(entries, i)
		}
	}
	for i, e := range entries {
		steps, cycle := climb(parents, i)
		switch {
		case cycle && smallestOf(parents, i) == i: // one report for each cycle
			d.fail(e.fromAt, "key_cycle", "the key is looked up in a circle", "one table of it needs a key of its own")
		case !cycle && steps == MaxChain+1: // those further down need no report of their own
			d.fail(e.fromAt, "key_chain", fmt.Sprintf("the key is looked up through more than %d parents", MaxChain), "give a table on the way a key of its own")
		}
	}
}

// parent finds the table that a key is derived from, or -1 where it cannot serve.
func (d *decoder) parent(entries []tableEntry, i int) int {
	e := entries[i]
	p := slices.IndexFunc(entries, func(o tableEntry) bool { return o.Name == e.Key.From })
	switch {
	case p < 0:
		if slices.ContainsFunc(entries, func(o tableEntry) bool { return !o.named() }) {
			return -1 // it may be the one whose name could not be read
		}
		d.fail(e.fromAt, "unknown_parent", "the parent is not among the tables", d.parentHint(entries, e.Key.From))
		return -1
	case entries[p].Everywhere:
		d.fail(e.fromAt, "everywhere_parent", "the parent is an everywhere table and has no key", "look the key up in a sharded table, or make this one everywhere too")
		return -1
	case entries[p].readable && entries[p].Key == Key{}:
		d.fail(e.fromAt, "keyless_parent", "the parent has no key", "give the parent one, or leave the key out here")
		return -1
	}
	return p
}

func (d *decoder) parentHint(entries []tableEntry, from TableName) string {
	for _, e := range entries {
		if e.Name.Name == from.Name || nearest(from.String(), []string{e.Name.String()}) != "" {
			return "did you mean " + e.label + "?"
		}
	}
	return "list it, with its key"
}

// climb counts the parents above a table; cycle says that they never end.
func climb(parents []int, i int) (steps int, cycle bool) {
	for at := parents[i]; at >= 0; at = parents[at] {
		if steps++; steps > len(parents) {
			return steps, true
		}
	}
	return steps, false
}

// smallestOf is the first table of the cycle that i is on, or -1 where i only
// leads into one.
func smallestOf(parents []int, i int) int {
	smallest := i
	at := parents[i]
	for range parents {
		if at == i {
			return smallest
		}
		smallest = min(smallest, at)
		at = parents[at]
	}
	return -1
}
