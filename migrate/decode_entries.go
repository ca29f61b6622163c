package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// entryName is what a pooler's file takes as the name of an entry without quotes.
var entryName = regexp.MustCompile(`^[A-Za-z0-9_.%-]{1,63}$`)

// entryNames says, for each file of a pooler, which entry took which name.
type entryNames map[string]map[string]place

// entries reads the entries of a pooler, or `database:` alone for a single one
// that leads to the primaries.
func (d *decoder) entries(m *mapping, r *Router, shards Shards, names entryNames) {
	short, isShort := m.optional("database")
	if isShort && m.has("entries") {
		d.fail(short.place, "bad_entry", "database is short for entries and excludes it", "add it to entries")
	}
	if isShort {
		if pattern, ok := d.entryPattern(short, shards, r, names); ok {
			r.Entries = []RouterEntry{{Database: pattern, To: "primary"}}
		}
	}
	var n node
	given := false
	if isShort || m.has("database") {
		n, given = m.optional("entries")
	} else {
		n, given = m.required("entries")
	}
	if !given {
		return
	}
	items, isList := d.sequence(n)
	if isList && len(items) == 0 {
		d.fail(n.place, "no_entries", "there is no entry", "name at least one")
	}
	for _, item := range items {
		if entry, ok := d.entry(item, shards, r, names); ok {
			r.Entries = append(r.Entries, entry)
		}
	}
}

func (d *decoder) entry(n node, shards Shards, r *Router, names entryNames) (RouterEntry, bool) {
	e := RouterEntry{To: "primary"}
	m := d.mapping(n)
	pattern, ok := m.required("database")
	if ok {
		e.Database, ok = d.entryPattern(pattern, shards, r, names)
	}
	if n, given := m.optional("to"); given {
		ok = d.choice(n, &e.To, "primary", "reader") && ok
	}
	m.done()
	return e, ok
}

// entryPattern reads the name of an entry and claims what it stands for.
func (d *decoder) entryPattern(n node, shards Shards, r *Router, names entryNames) (string, bool) {
	pattern, ok := d.text(n)
	if !ok {
		return "", false
	}
	if err := checkPattern(pattern); err != nil {
		d.fail(n.place, "bad_entry", err.Error(), "write app_%03d")
		return "", false
	}
	longestName := Number(pattern, max(shards.Count, 1)-1)
	switch {
	case !entryName.MatchString(pattern) || len(longestName) > MaxIdentifier:
		d.fail(n.place, "bad_entry", fmt.Sprintf("the name of an entry is 1 to %d letters, digits and _ . -", MaxIdentifier), "write app_%03d")
	case strings.EqualFold(pattern, "pgbouncer"):
		d.fail(n.place, "bad_entry", "pgbouncer is the name of the pooler's own console", "choose another name")
	case !Numbered(pattern) && len(databasesOf(shards)) > 1:
		d.fail(n.place, "bad_entry", "one entry cannot lead to several databases", "put the number of the shard into its name: app_%03d")
	default:
		return pattern, d.claim(n.place, pattern, shards.Count, r, names)
	}
	return "", false
}

// databasesOf lists the databases that shards are placed on.
func databasesOf(s Shards) []string {
	var databases []string
	for _, database := range s.Placement {
		if database != "" && !slices.Contains(databases, database) {
			databases = append(databases, database)
		}
	}
	return databases
}

// claim takes the names that a pattern stands for, in every file of the router.
func (d *decoder) claim(at place, pattern string, count int, r *Router, names entryNames) bool {
	for _, file := range filesOf(r) {
		if names[file] == nil {
			names[file] = map[string]place{}
		}
		for shard := range max(count, 1) {
			name := Number(pattern, shard)
			earlier, taken := names[file][name]
			if taken && earlier != at {
				d.fail(at, "entry_collision", fmt.Sprintf("for shard %d the entry has the same name as one of line %d", shard, earlier.line), "give them names that differ")
				return false
			}
			names[file][name] = at
			if !Numbered(pattern) {
				break
			}
		}
	}
	return true
}

// filesOf tells apart the files that a router's entries stand in, once each. A
// file on another host is another file.
func filesOf(r *Router) []string {
	files := []string{""}
	for _, i := range r.Instances {
		if file := strings.Join(append([]string{i.DatabasesFile}, i.FileVia...), "\x00"); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files[min(1, len(files)-1):]
}
