package migrate

import (
	"slices"
	"strings"
)

// Change is one difference between the spec of a migration under way and the
// one in the file.
type Change struct {
	Path     string // "shards.count"
	Text     string // in words: "shards.count was 480, is 512"
	Harmless bool   // nothing that was made or copied depends on it
}

// Changes says what differs between the spec in state and the one in the file.
// Of a table or database that one of them lacks only that is said.
func Changes(old, new Redacted) []Change {
	was, is := index(old.facts()), index(new.facts())
	var changes []Change
	for _, f := range new.facts() {
		before, known := was[f.path]
		_, shared := was[f.owner]
		switch {
		case before.value == f.value, !known && f.owner != "" && !shared:
		case f.list != nil:
			changes = append(changes, listChanges(f.path, before.list, f.list)...)
		default:
			changes = append(changes, Change{f.path, f.path + " was " + spoken(before.value) + ", is " + spoken(f.value), f.harmless})
		}
	}
	for _, f := range old.facts() {
		_, known := is[f.path]
		_, shared := is[f.owner]
		if !known && f.value != "" && (f.owner == "" || shared) {
			changes = append(changes, Change{f.path, f.path + " was " + f.value + ", is not given", f.harmless})
		}
	}
	return changes
}

// index finds facts by path, and owners by themselves.
func index(facts []fact) map[string]fact {
	found := map[string]fact{}
	for _, f := range facts {
		found[f.path] = f
		if f.owner != "" {
			found[f.owner] = fact{}
		}
	}
	return found
}

// listChanges words what came into a list and what left it.
func listChanges(path string, old, new []string) []Change {
	var changes []Change
	for _, name := range new {
		if !slices.Contains(old, name) {
			changes = append(changes, Change{Path: path + "." + name, Text: path + "." + name + " was added"})
		}
	}
	for _, name := range old {
		if !slices.Contains(new, name) {
			changes = append(changes, Change{Path: path + "." + name, Text: path + "." + name + " was removed"})
		}
	}
	if len(changes) == 0 {
		changes = append(changes, Change{Path: path, Text: "the order of " + path + " has changed"})
	}
	return changes
}

func spoken(value string) string {
	if value == "" {
		return "not given"
	}
	return value
}

// RefuseChanges is the refusal to go on with a spec that was changed in what
// state depends on, or nil.
func RefuseChanges(old, new Redacted) *Failure {
	var texts []string
	for _, c := range Changes(old, new) {
		if !c.Harmless {
			texts = append(texts, c.Text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return Refuse("spec.changed", new.Migration, "the spec has changed since prepare: "+strings.Join(texts, "; "),
		"put it back, or abort and prepare anew")
}
