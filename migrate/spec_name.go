package migrate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxIdentifier is the longest name that PostgreSQL does not cut off, in bytes.
const MaxIdentifier = 63

// plainName is a name that SQL needs no quotes for, but for reserved words.
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_$]*$`)

// String gives schema.name, with double quotes where SQL would need them. It is
// for people; SQL is built with quoted identifiers. ParseTableName reads it back.
func (n TableName) String() string { return quoteIfOdd(n.Schema) + "." + quoteIfOdd(n.Name) }

// MarshalText gives the same as String, so that names may be keys of JSON maps.
func (n TableName) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (n *TableName) UnmarshalText(text []byte) error {
	name, err := ParseTableName(string(text))
	if err != nil {
		return err
	}
	*n = name
	return nil
}

func quoteIfOdd(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// ParseTableName reads "schema.name", or a bare name for one in schema public.
// Names are taken as they stand, never folded to lower case; one with a dot, a
// space or a quote in it is written in double quotes, as in SQL.
func ParseTableName(text string) (TableName, error) {
	first, rest, err := cutIdentifier(text)
	if err != nil {
		return TableName{}, err
	}
	if rest == "" {
		return TableName{Schema: "public", Name: first}, nil
	}
	second, rest, err := cutIdentifier(rest[1:])
	if err != nil {
		return TableName{}, err
	}
	if rest != "" {
		return TableName{}, errors.New("more than one dot: a table is schema.name")
	}
	return TableName{Schema: first, Name: second}, nil
}

// cutIdentifier takes one identifier off the front; what is left is empty or
// begins with the dot.
func cutIdentifier(text string) (name, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		name, rest, err = cutQuoted(text)
	} else {
		name, rest = text, ""
		if dot := strings.IndexByte(text, '.'); dot >= 0 {
			name, rest = text[:dot], text[dot:]
		}
		if strings.ContainsAny(name, "\" \t\r\n") {
			err = errors.New("a name with a space or a quote in it needs double quotes around it")
		}
	}
	if err != nil {
		return "", "", err
	}
	if rest != "" && rest[0] != '.' {
		return "", "", errors.New("a dot was expected after the closing quote")
	}
	return name, rest, CheckIdentifier(name)
}

func cutQuoted(text string) (name, rest string, err error) {
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(text[1:i], `""`, `"`), text[i+1:], nil
	}
	return "", "", errors.New("a closing double quote is missing")
}

// CheckIdentifier says why PostgreSQL could not have an object of that name.
func CheckIdentifier(name string) error {
	switch {
	case name == "":
		return errors.New("a name is empty")
	case len(name) > MaxIdentifier:
		return fmt.Errorf("a name has %d bytes, PostgreSQL keeps %d", len(name), MaxIdentifier)
	case strings.ContainsRune(name, 0):
		return errors.New("a name holds a zero byte")
	}
	return nil
}
