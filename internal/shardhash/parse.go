package shardhash

import (
	"fmt"
	"math"
)

// parseInt reads a decimal integer without allocating, as strconv does for strings.
func parseInt(text []byte) (int64, error) {
	digits, negative := text, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		digits, negative = text[1:], text[0] == '-'
	}
	if len(digits) == 0 {
		return 0, notInt(text)
	}
	// The magnitude of the lowest int8 is one more than that of the highest.
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	var v uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || v > (limit-d)/10 {
			return 0, notInt(text)
		}
		v = v*10 + d
	}
	if negative {
		v = -v
	}
	return int64(v), nil
}

func notInt(text []byte) error { return fmt.Errorf("hash key: %.40q is not a bigint", text) }

// parseUUID reads the forms that PostgreSQL takes: 32 hexadecimal digits of either
// case, a hyphen after any group of four, braces around all.
func parseUUID(text []byte) (uuid [16]byte, err error) {
	rest := text
	if n := len(rest); n >= 2 && rest[0] == '{' && rest[n-1] == '}' {
		rest = rest[1 : n-1]
	}
	for i := range uuid {
		if i%2 == 0 && i > 0 && len(rest) > 0 && rest[0] == '-' {
			rest = rest[1:]
		}
		if len(rest) < 2 {
			return uuid, notUUID(text)
		}
		high, ok1 := hexDigit(rest[0])
		low, ok2 := hexDigit(rest[1])
		if !ok1 || !ok2 {
			return uuid, notUUID(text)
		}
		uuid[i], rest = high<<4|low, rest[2:]
	}
	if len(rest) > 0 {
		return uuid, notUUID(text)
	}
	return uuid, nil
}

func notUUID(text []byte) error { return fmt.Errorf("hash key: %.40q is not a uuid", text) }

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
