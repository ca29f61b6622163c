package pgbouncer

import (
	"errors"
	"fmt"
	"strings"
)

// connstr takes a connection string apart, from an offset to the end of c. PgBouncer
// ends a plain value at a space alone and undoubles quotes in a quoted one. What it
// reads otherwise than it looks is refused: a tab in a plain value belongs to it, and
// the letter after a closing quote is swallowed.
func connstr(c []byte, at int) ([]iniParam, error) {
	var params []iniParam
	for {
		at = skip(c, at, isBlank)
		if at == len(c) {
			return params, nil
		}
		key := at
		at = skip(c, at, func(b byte) bool { return b != '=' && b != ' ' })
		p := iniParam{key: string(c[key:at])}
		at = skip(c, at, isBlank)
		if at == len(c) || c[at] != '=' || p.key == "" {
			return nil, fmt.Errorf("%q is not key=value", p.key)
		}
		p.start = skip(c, at+1, isBlank)
		if err := p.read(c); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.key, err)
		}
		at = p.end
		for _, earlier := range params {
			if earlier.key == p.key {
				return nil, fmt.Errorf("parameter %s is given twice", p.key)
			}
		}
		params = append(params, p)
	}
}

// read finds the end of the value and what it means.
func (p *iniParam) read(c []byte) error {
	if p.start < len(c) && c[p.start] == '\'' {
		return p.readQuoted(c)
	}
	p.end = skip(c, p.start, func(b byte) bool { return b != ' ' })
	p.value = string(c[p.start:p.end])
	if p.value == "" {
		return errors.New("it has no value")
	}
	if strings.ContainsRune(p.value, '\t') {
		return errors.New("a tab is part of its value: put a space there")
	}
	return nil
}

func (p *iniParam) readQuoted(c []byte) error {
	var value strings.Builder
	for at := p.start + 1; at < len(c); at++ {
		if c[at] == '\'' {
			if at+1 == len(c) || c[at+1] != '\'' {
				p.end, p.value = at+1, value.String()
				break
			}
			at++
		}
		value.WriteByte(c[at])
	}
	switch {
	case p.end == 0:
		return errors.New("the closing quote is missing")
	case p.value == "":
		return errors.New("it has no value")
	case p.end < len(c) && c[p.end] != ' ' && c[p.end] != '\t':
		return errors.New("a space is missing after the closing quote")
	}
	return nil
}

// quote writes a value so that connstr reads it back. A line break cannot be written.
func quote(value string) (string, error) {
	if value == "" || strings.ContainsAny(value, "\n\r\x00") {
		return "", fmt.Errorf("the value %q cannot stand in a pooler's file", value)
	}
	plain := strings.IndexFunc(value, func(r rune) bool { return !(isName(byte(r)) || strings.ContainsRune("/:@,", r)) || r > 0x7f }) < 0
	if plain {
		return value, nil
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'", nil
}
