package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// node is a value of the document and where it stands.
type node struct {
	place
	body ast.Node
}

// mapping is a YAML mapping that is read key by key; what nobody asked for is
// unknown.
type mapping struct {
	place
	d       *decoder
	entries []entry
	known   []string
	broken  bool // was no mapping, which is reported: it lacks no keys
}

// entry is a key with its value.
type entry struct {
	key   string
	at    place // of the key
	value node
}

// mapping reads a node that has to be one.
func (d *decoder) mapping(n node) *mapping {
	m := &mapping{place: n.place, d: d}
	var values []*ast.MappingValueNode
	switch body := n.body.(type) {
	case *ast.MappingNode:
		values = body.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{body}
	default:
		m.broken = true
		d.wrongType(n, "a mapping")
		return m
	}
	lines := map[string]int{}
	for _, v := range values {
		key, ok := d.key(n.place, v)
		if !ok {
			continue
		}
		at := n.below(v.Key.GetToken().Position.Line, show(key))
		if first, twice := lines[key]; twice {
			d.fail(at, "duplicate_key", fmt.Sprintf("the key stands twice, first in line %d", first), "remove one of them")
			continue
		}
		lines[key] = at.line
		m.entries = append(m.entries, entry{key, at, node{at, v.Value}})
	}
	return m
}

// key gives the text of a key. Keys are plain: no variables, no YAML magic.
func (d *decoder) key(parent place, v *ast.MappingValueNode) (string, bool) {
	at := place{v.GetToken().Position.Line, parent.path}
	switch key := v.Key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text := key.GetToken().Value
		if v.GetToken().Value == text { // {dsn: a,b} has the key b, and b may be half a password
			d.fail(at, "malformed", "a text stands where a key and a colon should", "put a text with a comma in it in quotes")
			return "", false
		}
		if holdsVariable(text) {
			d.fail(at, "bad_variable", "variables are not expanded in keys", "write the name itself")
			return "", false
		}
		return text, true
	default:
		d.fail(at, "unsupported_yaml", "anchors, aliases, tags, merge keys and complex keys are not supported", "write the values out")
		return "", false
	}
}

// optional gives the value of a key, if it is there.
func (m *mapping) optional(key string) (node, bool) {
	m.known = append(m.known, key)
	for _, e := range m.entries {
		if e.key != key {
			continue
		}
		if _, null := e.value.body.(*ast.NullNode); null || e.value.body == nil {
			m.d.fail(e.at, "no_value", "the key has no value", "give one, or remove the key")
			return node{}, false
		}
		return e.value, true
	}
	return node{}, false
}

// required gives the value of a key and reports its absence.
func (m *mapping) required(key string) (node, bool) {
	n, ok := m.optional(key)
	if !ok && !m.broken && !m.has(key) {
		m.d.fail(m.below(m.line, key), "missing_key", "the key is missing", "")
	}
	return n, ok
}

func (m *mapping) has(key string) bool {
	return slices.ContainsFunc(m.entries, func(e entry) bool { return e.key == key })
}

// done reports the keys that nobody asked for.
func (m *mapping) done() {
	for _, e := range m.entries {
		if slices.Contains(m.known, e.key) {
			continue
		}
		hint := "known here: " + strings.Join(m.known, ", ")
		if near := nearest(e.key, m.known); near != "" {
			hint = "did you mean " + near + "?"
		}
		m.d.fail(e.at, "unknown_key", "unknown key", hint)
	}
}

// sequence reads a node that has to be a list; its items are named path[0], ….
func (d *decoder) sequence(n node) ([]node, bool) {
	list, ok := n.body.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, "a list")
		return nil, false
	}
	items := make([]node, len(list.Values))
	for i, v := range list.Values {
		items[i] = node{place{v.GetToken().Position.Line, fmt.Sprintf("%s[%d]", n.path, i)}, v}
	}
	return items, true
}
