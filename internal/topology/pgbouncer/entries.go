package pgbouncer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// entry is one name of the spec that clients connect to.
type entry struct {
	name  string
	shard int // -1: all shards, which then have one home
	to    string
}

// expand lists the entries that the patterns stand for.
func expand(patterns []migrate.RouterEntry, count int) []entry {
	var entries []entry
	for _, p := range patterns {
		if !migrate.Numbered(p.Database) {
			entries = append(entries, entry{name: p.Database, shard: -1, to: p.To})
			continue
		}
		for shard := range count {
			entries = append(entries, entry{name: migrate.Number(p.Database, shard), shard: shard, to: p.To})
		}
	}
	return entries
}

// routes are those of the document that the entry stands for.
func (e entry) routes(doc topology.Topology) ([]topology.Route, error) {
	if e.shard < 0 {
		return doc.Shards, nil
	}
	if e.shard >= len(doc.Shards) {
		return nil, fmt.Errorf("entry %s: the document has no shard %d", e.name, e.shard)
	}
	return doc.Shards[e.shard : e.shard+1], nil
}

// address is where the document leads the entry.
func (e entry) address(doc topology.Topology) (topology.Address, error) {
	routes, err := e.routes(doc)
	if err != nil {
		return topology.Address{}, err
	}
	a := routes[0].Address(e.to)
	for _, r := range routes[1:] {
		if r.Address(e.to) != a {
			return a, migrate.Refuse("router.entry", e.name,
				fmt.Sprintf("one entry cannot lead to %s and to %s", a, r.Address(e.to)), "put the number of the shard into its name: app_%03d")
		}
	}
	return a, nil
}

// settings are the parameters that the document gives the entry.
func (e entry) settings(doc topology.Topology, setPath bool) ([]setting, error) {
	a, err := e.address(doc)
	if err != nil {
		return nil, err
	}
	settings := []setting{{"host", a.Host}, {"port", strconv.Itoa(int(a.Port))}, {"dbname", a.DBName}}
	routes, err := e.routes(doc)
	if err == nil && setPath && len(routes) == 1 {
		settings = append(settings, setting{"connect_query", searchPath(routes[0].SearchPath)})
	}
	return settings, err
}

// searchPath is the statement that makes unqualified names mean the shard's tables.
func searchPath(schemas []string) string {
	names := make([]string, len(schemas))
	for i, s := range schemas {
		names[i] = s
		if s != "public" && !certainlyPlain.MatchString(s) {
			names[i] = postgres.Ident(s)
		}
	}
	return "SET search_path = " + strings.Join(names, ", ")
}

// certainlyPlain is a name that needs no quotes: no key word ends in a digit.
var certainlyPlain = regexp.MustCompile(`^[a-z_][a-z0-9_]*[0-9]$`)

// rewrite makes the file's content that leads where the document says.
func (r *Router) rewrite(place string, old []byte, doc topology.Topology) ([]byte, error) {
	f, err := parseINI(r.withoutProbes(old))
	if err != nil {
		return nil, unfit(place, err)
	}
	if have := f.epoch(r.migration); have > doc.Epoch {
		return nil, topology.OlderEpoch(place, have, doc.Epoch)
	}
	var edits []edit
	if f.epoch(r.migration) != doc.Epoch {
		edits = f.setEpoch(r.migration, doc.Epoch)
	}
	for _, e := range r.entries {
		settings, err := e.settings(doc, r.setPath)
		if err != nil {
			return nil, err
		}
		line, err := f.find(e.name)
		if err != nil {
			return nil, unfit(place, err)
		}
		changes, err := line.set(settings)
		if err != nil {
			return nil, unfit(place, err)
		}
		edits = append(edits, changes...)
	}
	content := f.apply(edits)
	return content, r.compare(place, content, doc)
}

// compare reports where a file's content differs from the document.
func (r *Router) compare(place string, content []byte, doc topology.Topology) error {
	f, err := parseINI(content)
	if err != nil {
		return unfit(place, err)
	}
	if have := f.epoch(r.migration); have != doc.Epoch {
		return differs(place, fmt.Sprintf("the file keeps epoch %d, not %d", have, doc.Epoch))
	}
	for _, e := range r.entries {
		settings, err := e.settings(doc, r.setPath)
		if err != nil {
			return err
		}
		line, err := f.find(e.name)
		if err != nil {
			return unfit(place, err)
		}
		for _, s := range settings {
			if got := line.value(s.key); got != s.value {
				return differs(place, fmt.Sprintf("entry %s has %s %q, not %q", e.name, s.key, got, s.value))
			}
		}
	}
	return nil
}

func unfit(place string, err error) error {
	return migrate.Refuse("router.file", place, err.Error(), "mend the file, then run the command again")
}

func differs(place, what string) error {
	return migrate.Broken("router.read_back", place, what, "see the pooler's log, mend its file, then run the command again", nil)
}

// names lists the entries' names.
func names(entries []entry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names
}

// within are the entries that a scope concerns.
func (r *Router) within(scope topology.Scope) (out []entry) {
	for _, e := range r.entries {
		if e.shard < 0 || scope.Has(e.shard) {
			out = append(out, e)
		}
	}
	return out
}

// shares reports whether the pooler has entries that are not ours.
func (r *Router) shares(shown map[string]database) bool {
	for name := range shown {
		if name != "pgbouncer" && !r.ours(name) {
			return true
		}
	}
	return false
}

// ours reports whether an entry of the pooler belongs to the spec, or to a probe of it.
func (r *Router) ours(name string) bool {
	return r.known[name] || strings.HasPrefix(name, r.probeName())
}
