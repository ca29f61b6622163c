package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
)

// native are the types whose values are the same exactly when they hash alike, so
// that the server may hash them as they are. Everything else goes through text:
// jsonb and numeric 1.0 and 1.00, float -0, ranges, intervals, char(n) and citext
// hash equal though they differ, an enum hashes its OID, an array neither its
// bounds nor its dimensions.
var native = []string{
	"boolean", "smallint", "integer", "bigint", "uuid", "bytea", "date", "time without time zone",
	"timestamp without time zone", "timestamp with time zone", "text", "character varying",
}

// digester writes the expressions by which a server digests its own rows. Both
// sides are asked with the same one.
type digester struct {
	records bool // every server has hash_record_extended: PostgreSQL 14 and later
	convert bool // the servers' encodings differ, so that text is hashed as UTF-8
}

// row is the digest, of type bigint, of a row's columns. The seed, an expression,
// tells apart rows that are equal but stand at different places.
func (d digester) row(alias string, columns []catalog.Column, seed string) string {
	var fields, others []string
	for _, c := range columns {
		if d.isNative(c) {
			fields = append(fields, d.field(alias, c))
		} else {
			others = append(others, name(alias, c))
		}
	}
	if len(others) > 0 {
		fields = append(fields, d.text(others))
	}
	return d.hash(fields, seed)
}

// columns is an array of bigint with the digest of each column.
func (d digester) columns(alias string, columns []catalog.Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = d.row(alias, []catalog.Column{c}, "0")
	}
	return "ARRAY[" + strings.Join(out, ", ") + "]::bigint[]"
}

// key is the hash, of type bigint, of a row's primary key, given as the SQL
// expressions of its columns.
func (d digester) key(expressions []string, pk []catalog.Column) string {
	if len(pk) == 1 && d.isNative(pk[0]) {
		switch pk[0].BaseType {
		case "smallint", "integer", "bigint":
			return "hashint8extended(" + expressions[0] + "::bigint, 0)"
		case "uuid":
			return "uuid_hash_extended(" + expressions[0] + ", 0)"
		case "text", "character varying":
			if !d.convert {
				return "hashtextextended(" + expressions[0] + `::text COLLATE "C", 0)`
			}
		}
	}
	return d.hash([]string{d.text(expressions)}, "0")
}

func (d digester) isNative(c catalog.Column) bool {
	return d.records && c.Deterministic && slices.Contains(native, c.BaseType)
}

func (d digester) field(alias string, c catalog.Column) string {
	if d.convert && (c.BaseType == "text" || c.BaseType == "character varying") {
		return "convert_to(" + name(alias, c) + "::text, 'UTF8')"
	}
	return name(alias, c)
}

// text is the text of several values as a record. A record is always written by
// its types' output functions, while a cast to text may drop what it likes (char(n)
// its blanks); NULL and the empty string differ, and no value runs into the next.
func (d digester) text(expressions []string) string {
	record := "ROW(" + strings.Join(expressions, ", ") + ")::text"
	if d.convert {
		return "convert_to(" + record + ", 'UTF8')"
	}
	return record
}

func (d digester) hash(fields []string, seed string) string {
	switch {
	case d.records:
		return fmt.Sprintf("hash_record_extended(ROW(%s), %s)", strings.Join(fields, ", "), seed)
	case d.convert: // before PostgreSQL 14 all of a row is one value: bytes
		return fmt.Sprintf("hashtextextended(encode(%s, 'hex'), %s)", fields[0], seed)
	default:
		return fmt.Sprintf("hashtextextended(%s, %s)", fields[0], seed)
	}
}

func name(alias string, c catalog.Column) string { return alias + "." + postgres.Ident(c.Name) }
