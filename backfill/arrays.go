package backfill

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/rowstream"
)

// arrayHeader is the size of a one-dimensional array's binary header.
const arrayHeader = 20

// array is a field of all tuples of a bin as the binary form of an array: of the
// column's own type, whose elements are framed as COPY frames fields, or of text.
func (b *bin) array(f rowstream.Format, c catalog.Column, field int) []byte {
	element := c.TypeOID
	if f == rowstream.Text {
		element = pgtype.TextOID
	}
	out := make([]byte, 0, arrayHeader+16*len(b.ends))
	for _, v := range []uint32{1, 1, element, uint32(len(b.ends)), 1} { // dimensions, may hold NULL, type, length, lower bound
		out = binary.BigEndian.AppendUint32(out, v)
	}
	for i := range b.ends {
		t := b.tuple(f, i)
		if f == rowstream.Binary {
			out = append(out, t.Span(field)...)
			continue
		}
		v, null := t.Field(field)
		if null {
			out = binary.BigEndian.AppendUint32(out, 1<<32-1)
			continue
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(v))), v...)
	}
	return out
}

// keyArrays are the primary key's columns, and then a field more where asked.
func (b *bin) keyArrays(r *route, extra ...int) [][]byte {
	var out [][]byte
	for i, c := range r.table.PK {
		out = append(out, b.array(r.format, c, r.keyAt[i]))
	}
	copied := r.table.Copied()
	for _, field := range extra {
		out = append(out, b.array(r.format, copied[field], field))
	}
	return out
}
