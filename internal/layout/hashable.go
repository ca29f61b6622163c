package layout

import "github.com/shardctl/shardctl/internal/catalog"

// HashFamily names the hash family of a column that may be a key: "int", "uuid" or
// "text"; "" for one that may not: by its type, by its collation, or because the
// server computes it.
func HashFamily(c catalog.Column) string {
	if !c.Deterministic || c.Generated {
		return ""
	}
	return families[c.BaseType]
}

// Comparable reports whether values of two columns can refer to each other.
func Comparable(a, b catalog.Column) bool { return comparable(a, b) }
