package migrate

import (
	"fmt"
	"slices"
)

// Decode reads a spec from YAML, expands ${NAME} in its texts through env,
// fills in defaults and checks all that can be known without a connection. It
// reports everything that is wrong at once, as Failures in the order of the
// lines. Neither a DSN nor the value of a variable is ever part of an error.
// The name is that of the file, for messages.
func Decode(name string, data []byte, env func(string) (string, bool)) (*Spec, error) {
	body, failure := parseDocument(name, data)
	if failure != nil {
		return nil, Failures{failure}
	}
	d := &decoder{env: env}
	spec := d.spec(node{place: place{line: 1}, body: body})
	if failures := d.sorted(); len(failures) > 0 {
		return nil, failures
	}
	return spec, nil
}

// decoder walks the document and collects what is wrong with it.
type decoder struct {
	env   func(string) (string, bool)
	found []finding
	dsns  []givenDSN
}

// finding is a failure with the line that it is sorted by.
type finding struct {
	line    int
	failure *Failure
}

// place is where in the file something stands.
type place struct {
	line int
	path string
}

func (p place) String() string {
	if p.path == "" {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("line %d: %s", p.line, p.path)
}

// below is the place of a part of what stands at p.
func (p place) below(line int, part string) place {
	if p.path == "" {
		return place{line, part}
	}
	return place{line, p.path + "." + part}
}

func (d *decoder) fail(at place, code, message, hint string) {
	d.found = append(d.found, finding{at.line, Usage("spec."+code, at.String(), message, hint)})
}

func (d *decoder) sorted() Failures {
	slices.SortStableFunc(d.found, func(a, b finding) int { return a.line - b.line })
	var failures Failures
	for _, f := range d.found {
		failures = append(failures, f.failure)
	}
	return failures
}

// spec reads the whole document. Sections come in the order in which later ones
// are checked against earlier ones.
func (d *decoder) spec(root node) *Spec {
	m := d.mapping(root)
	s := &Spec{Version: 1, Sequences: "stride", Complete: CompleteSettings{EverywhereOwner: "source"}}
	d.head(m, s)
	if n, ok := m.required("source"); ok {
		s.Source = d.source(n)
	}
	if n, ok := m.required("databases"); ok {
		s.Databases = d.databases(n)
	}
	if n, ok := m.required("shards"); ok {
		s.Shards = d.shards(n, s.DatabaseNames())
	}
	if n, ok := m.required("tables"); ok {
		s.Tables = d.tables(n, s.Shards)
	}
	d.settings(m, s)
	if n, ok := m.optional("topology"); ok {
		s.Topology = d.topology(n, s.Shards)
	}
	m.done()
	d.checkDSNs()
	return s
}

// head reads what names the migration.
func (d *decoder) head(m *mapping, s *Spec) {
	if n, ok := m.required("version"); ok {
		d.integer(n, 1, 1, &s.Version)
	}
	if n, ok := m.required("migration"); ok {
		if text, ok := d.text(n); ok && !migrationName.MatchString(text) {
			d.fail(n.place, "bad_migration", "the name of a migration is 1 to 32 of a-z, 0-9 and _", "it becomes part of the names of tables and triggers")
		} else if ok {
			s.Migration = text
		}
	}
}
