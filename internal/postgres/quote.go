package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// Ident quotes a name, or a qualified name given as its parts.
func Ident(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// Table quotes a schema-qualified name.
func Table(schema, name string) string { return Ident(schema, name) }

// Literal quotes a string constant; it reads the same under either setting of
// standard_conforming_strings.
func Literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// Idents quotes a list of column names, each with an optional alias prefix,
// joined by commas.
func Idents(alias string, names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = Ident(n)
		if alias != "" {
			out[i] = alias + "." + out[i]
		}
	}
	return strings.Join(out, ", ")
}
