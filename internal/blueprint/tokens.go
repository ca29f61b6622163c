package blueprint

import "strings"

// token gives the length of the SQL token that text begins with, as the server
// prints expressions: a quoted string or identifier whole, all else byte by byte.
func token(text string) int {
	switch {
	case text[0] == '"':
		return quoted(text, '"', false)
	case text[0] == '\'':
		return quoted(text, '\'', false)
	case strings.HasPrefix(text, "E'"):
		return 1 + quoted(text[1:], '\'', true)
	}
	return 1
}

// quoted gives the length of a quoted token, in which a doubled quote stands for
// one and, in an escape string, a backslash takes the next byte with it.
func quoted(text string, quote byte, escapes bool) int {
	for i := 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] != quote:
		case i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(text)
}

// splitTrigger takes a trigger's definition apart at the table's name: the first
// ON outside of quotes, since a column of that name would be quoted.
func splitTrigger(def, table string) (before, after string, ok bool) {
	for i := 0; i < len(def); i += token(def[i:]) {
		rest, found := strings.CutPrefix(def[i:], " ON ")
		if !found {
			continue
		}
		after, ok = strings.CutPrefix(rest, table+" ")
		return def[:i], after, ok
	}
	return "", "", false
}
