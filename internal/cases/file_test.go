package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// file is one case as its file tells it.
type file struct {
	id, title, key, outcome, needs, role string
	refused                              string // id and object of each finding, with ; between
	long                                 string // why it is in the long form alone
	setup, target                        []statement
	before, live, after                  []statement
}

// statement is one statement of a session, with the rows of a COPY FROM STDIN.
type statement struct {
	session, sql string
	rows         string
	copies       bool
}

// readFile reads a case. Its head are comments of the form "-- key: value"; later
// ones name a section or the session of what follows.
func readFile(path string) (*file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(path), ".sql")
	_, title, _ := strings.Cut(name, "-")
	f := &file{title: strings.ReplaceAll(title, "-", " ")}
	sections := map[string]*[]statement{"": &f.setup, "target": &f.target, "before": &f.before, "live": &f.live, "after-cutover": &f.after}
	heads := map[string]*string{"id": &f.id, "shard-key": &f.key, "outcome": &f.outcome, "needs": &f.needs, "role": &f.role, "refused": &f.refused, "long": &f.long}
	into, session := sections[""], "A"
	var body strings.Builder
	flush := func() error {
		found, err := split(body.String())
		for _, s := range found {
			s.session = session
			*into = append(*into, s)
		}
		body.Reset()
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		key, value, ok := strings.Cut(strings.TrimPrefix(line, "-- "), ":")
		ok = ok && strings.HasPrefix(line, "-- ")
		value = strings.TrimSpace(value)
		switch {
		case ok && key == "session":
			if err := flush(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			session = value
		case ok && sections[key] != nil && value == "":
			if err := flush(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			into, session = sections[key], "A"
		case ok && heads[key] != nil:
			*heads[key] = value
		default:
			body.WriteString(line + "\n")
		}
	}
	if err := flush(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if f.id == "" || f.key == "" || f.outcome == "" {
		return nil, fmt.Errorf("%s: the head lacks id, shard-key or outcome", name)
	}
	return f, nil
}

// split cuts a text into statements: at each ; outside quotes, dollar quotes and
// comments. The rows of a COPY FROM STDIN end at a line of \. alone.
func split(text string) (out []statement, err error) {
	for start, i := 0, 0; ; {
		if i >= len(text) {
			if rest := strings.TrimSpace(text[start:]); rest != "" && !onlyComments(rest) {
				return out, fmt.Errorf("a statement has no end: %.60q", rest)
			}
			return out, nil
		}
		switch c := text[i]; {
		case c == '\'':
			i = quoted(text, i, '\'', i > 0 && strings.ContainsRune("eE", rune(text[i-1])))
		case c == '"':
			i = quoted(text, i, '"', false)
		case strings.HasPrefix(text[i:], "--"):
			i += strings.IndexByte(text[i:]+"\n", '\n')
		case c == '$':
			i = dollar(text, i)
		case c == ';':
			s := statement{sql: strings.TrimSpace(text[start:i])}
			i++
			if upper := strings.ToUpper(s.sql); strings.HasPrefix(upper, "COPY") && strings.Contains(upper, "FROM STDIN") {
				i += strings.IndexByte(text[i:]+"\n", '\n') + 1
				end := strings.Index(text[i:], "\\.\n")
				if end < 0 {
					return out, fmt.Errorf("the rows of a COPY have no end: %.60q", s.sql)
				}
				s.copies, s.rows = true, text[i:i+end]
				i += end + len("\\.\n")
			}
			out = append(out, s)
			start = i
		default:
			i++
		}
	}
}

func quoted(text string, i int, quote byte, escapes bool) int {
	for i++; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return i
}

// dollar passes over a dollar quote, if one begins here.
func dollar(text string, i int) int {
	end := strings.IndexByte(text[i+1:], '$')
	if end < 0 || strings.ContainsAny(text[i+1:i+1+end], " \n;,()'\"") {
		return i + 1
	}
	tag := text[i : i+end+2]
	close := strings.Index(text[i+len(tag):], tag)
	if close < 0 {
		return len(text)
	}
	return i + 2*len(tag) + close
}

func onlyComments(text string) bool {
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			return false
		}
	}
	return true
}
