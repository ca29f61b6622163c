package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Digest names what state depends on: two specs with the same digest differ in
// nothing but harmless settings, addresses and secrets.
func (s *Spec) Digest() string {
	sum := sha256.New()
	for _, f := range s.Redacted().facts() {
		if !f.harmless && f.value != "" { // what an older version did not know is not given
			fmt.Fprintf(sum, "%q %q\n", f.path, f.value)
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// fact is one thing that a spec says. Of two specs with equal facts one may take
// the place of the other.
type fact struct {
	path     string
	value    string
	harmless bool
	owner    string   // the table or database that it is said of
	list     []string // where the value lists names
}

// facts lists all that the spec says, in an order of their own.
func (r Redacted) facts() []fact {
	facts := []fact{
		{path: "version", value: strconv.Itoa(r.Version)},
		{path: "migration", value: r.Migration},
		listFact("databases", names(r.Databases, func(d RedactedDatabase) string { return d.Name })),
		{path: "shards.count", value: strconv.Itoa(r.Shards.Count)},
		{path: "shards.schema", value: r.Shards.Schema},
		{path: "shards.hash", value: r.Shards.Hash},
		listFact("tables", names(r.Tables, func(t RedactedTable) string { return t.Name.String() })),
		{path: "capture.engine", value: r.Engine},
		{path: "sequences", value: r.Sequences},
	}
	for _, d := range r.Databases {
		path := "databases." + d.Name
		facts = append(facts,
			fact{path: "shards.placement." + d.Name, value: r.Shards.Placement[d.Name], owner: path},
			fact{path: path + ".router", value: d.Router, harmless: true, owner: path},
			fact{path: path + ".reader", value: d.Reader, harmless: true, owner: path})
	}
	for _, t := range r.Tables {
		facts = append(facts, t.facts()...)
	}
	for i, router := range r.Topology {
		path := fmt.Sprintf("topology[%d].", i)
		facts = append(facts,
			fact{path: path + "driver", value: router.Driver},
			fact{path: path + "entries", value: strings.Join(router.Entries, ", ")},
			fact{path: path + "files", value: strings.Join(router.Files, ", "), harmless: true},
			fact{path: path + "table", value: router.Table, harmless: true})
	}
	for _, path := range slices.Sorted(maps.Keys(r.Settings)) {
		facts = append(facts, fact{path: path, value: r.Settings[path], harmless: true})
	}
	return facts
}

func (t RedactedTable) facts() []fact {
	from := ""
	if t.From != nil {
		from = t.From.String()
	}
	facts := []fact{
		{path: "as", value: t.As}, {path: "key", value: t.Key}, {path: "key.from", value: from}, {path: "key.via", value: t.Via},
		{path: "key.store_as", value: t.StoreAs}, {path: "version", value: t.Version}, {path: "rollback", value: t.Rollback},
		{path: "orphans", value: t.Orphans}, {path: "null_keys", value: t.NullKeys}, {path: "everywhere", value: strconv.FormatBool(t.Everywhere)},
	}
	for i := range facts {
		facts[i].owner = "tables." + t.Name.String()
		facts[i].path = facts[i].owner + "." + facts[i].path
	}
	return facts
}

func names[T any](items []T, name func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = name(item)
	}
	return out
}

func listFact(path string, list []string) fact {
	return fact{path: path, value: strings.Join(list, ", "), list: list}
}
