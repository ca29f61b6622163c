package pgbouncer

import (
	"bytes"
	"fmt"
	"strings"
)

// ini is a databases file, taken apart exactly as PgBouncer does, so that an entry can
// be changed in place: spans are offsets into the content.
type ini struct {
	content []byte
	entries []*iniEntry            // of section [databases], in the order of the file
	named   map[string][]*iniEntry // the same by name
}

// iniEntry is one `name = connection string` line.
type iniEntry struct {
	name       string
	start, end int // of the line without its white space and end
	params     []iniParam
	problem    error // why the connection string cannot be read
}

// iniParam is one key=value of a connection string.
type iniParam struct {
	key, value string
	start, end int // of the value, quotes included
}

// parseINI reads a databases file. Lines before any section header belong to
// [databases]: the file is included there. Included files are not followed; entries
// of ours have to stand in the file itself.
func parseINI(content []byte) (*ini, error) {
	f := &ini{content: content, named: map[string][]*iniEntry{}}
	if zero := bytes.IndexByte(content, 0); zero >= 0 {
		return nil, f.syntax(zero, "a zero byte, where PgBouncer stops reading")
	}
	section := "databases"
	for at := 0; ; {
		at = skip(content, at, isSpace)
		if at == len(content) {
			return f, nil
		}
		switch c := content[at]; {
		case c == '#' || c == ';', isInclude(content[at:]):
			at = lineEnd(content, at)
		case c == '[':
			end := lineEnd(content, at)
			closing := bytes.IndexByte(content[at:end], ']')
			if closing < 0 {
				return nil, f.syntax(at, "a section has no closing bracket")
			}
			section = string(content[at+1 : at+closing])
			at += closing + 1 // what follows on the line is read as a line of its own
		default:
			e, err := f.entry(at)
			if err != nil {
				return nil, err
			}
			if section == "databases" {
				f.entries, f.named[e.name] = append(f.entries, e), append(f.named[e.name], e)
			}
			at = lineEnd(content, at)
		}
	}
}

// entry reads the line that begins at an offset.
func (f *ini) entry(at int) (*iniEntry, error) {
	c := f.content
	e := &iniEntry{start: at}
	name, next, ok := f.name(at)
	if !ok {
		return nil, f.syntax(at, "the name of an entry is not closed by a quote")
	}
	e.name = name
	next = skip(c, next, isBlank)
	if next == len(c) || c[next] != '=' {
		return nil, f.syntax(at, "a line is neither comment nor section nor name = value")
	}
	next = skip(c, next+1, isBlank)
	e.end = max(next, lineEnd(c, at))
	for e.end > next && isSpace(c[e.end-1]) {
		e.end--
	}
	e.params, e.problem = connstr(c[:e.end], next)
	return e, nil
}

// name reads an entry's name, in double quotes (PgBouncer 1.19) or plain.
func (f *ini) name(at int) (name string, next int, ok bool) {
	c := f.content
	if c[at] != '"' {
		next = skip(c, at, isName)
		return string(c[at:next]), next, true
	}
	for next = at + 1; next < lineEnd(c, at); next++ {
		if c[next] != '"' {
			continue
		}
		if next+1 < len(c) && c[next+1] == '"' {
			next++
			continue
		}
		return strings.ReplaceAll(string(c[at+1:next]), `""`, `"`), next + 1, true
	}
	return "", next, false
}

func (f *ini) syntax(at int, what string) error {
	return fmt.Errorf("line %d: %s", f.line(at), what)
}

// line is the number of an offset's line. It is counted when somebody asks: counting
// for each of hundreds of entries would take longer than a pause should.
func (f *ini) line(at int) int { return 1 + bytes.Count(f.content[:at], []byte{'\n'}) }

// find gives the one entry of that name.
func (f *ini) find(name string) (*iniEntry, error) {
	all := f.named[name]
	switch len(all) {
	case 0:
		return nil, fmt.Errorf("there is no entry %s", name)
	case 1:
	default:
		return nil, fmt.Errorf("entry %s stands there twice, in lines %d and %d", name, f.line(all[0].start), f.line(all[1].start))
	}
	found := all[0]
	if found.problem != nil {
		return nil, fmt.Errorf("line %d: entry %s: %w", f.line(found.start), name, found.problem)
	}
	return found, nil
}

// value gives a parameter's value; "" is none, as PgBouncer takes no empty ones.
func (e *iniEntry) value(key string) string {
	for _, p := range e.params {
		if p.key == key {
			return p.value
		}
	}
	return ""
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isBlank(c byte) bool { return c == ' ' || c == '\t' }
func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-*", c) >= 0
}

func isInclude(rest []byte) bool {
	const word = "%include"
	return bytes.HasPrefix(rest, []byte(word)) && len(rest) > len(word) && isBlank(rest[len(word)])
}

func skip(c []byte, at int, while func(byte) bool) int {
	for at < len(c) && while(c[at]) {
		at++
	}
	return at
}

// lineEnd is where the newline of an offset's line stands, or the end.
func lineEnd(c []byte, at int) int {
	if n := bytes.IndexByte(c[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(c)
}
