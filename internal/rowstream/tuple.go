package rowstream

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Tuple is one row in the form of its stream. It aliases the buffer that it was
// read into and is valid until the next one is asked for.
type Tuple struct {
	format Format
	raw    []byte // binary: with the field count; text: with the newline
}

// NewTuple takes one whole tuple, as Append wrote it.
func NewTuple(f Format, raw []byte) Tuple { return Tuple{format: f, raw: raw} }

// Format is the form of the tuple's bytes.
func (t Tuple) Format() Format { return t.format }

// Size is how many bytes the tuple has in its stream.
func (t Tuple) Size() int { return len(t.raw) }

// Len is the number of fields.
func (t Tuple) Len() int {
	if t.format == Binary {
		return int(int16(binary.BigEndian.Uint16(t.raw)))
	}
	return bytes.Count(t.raw, tab) + 1
}

var tab = []byte{'\t'}

// Field gives the value of field i: its binary form, or its text without
// escapes. It is found by walking from the first field, so leading fields are
// the cheap ones. Only an escaped text is copied. It panics beyond the last field.
func (t Tuple) Field(i int) (value []byte, isNull bool) {
	span := t.Span(i)
	if t.format == Binary {
		return span[4:], int32(binary.BigEndian.Uint32(span)) < 0
	}
	if string(span) == `\N` {
		return nil, true
	}
	if bytes.IndexByte(span, '\\') >= 0 {
		span = unescape(span)
	}
	return span, false
}

// Span gives field i as it stands in the stream: in binary its length and value,
// in text the escaped value. Put behind other spans it makes another tuple.
func (t Tuple) Span(i int) []byte {
	rest := t.raw[t.offset(i):]
	if t.format == Binary {
		return rest[:4+max(int(int32(binary.BigEndian.Uint32(rest))), 0)]
	}
	end := bytes.IndexByte(rest, '\t')
	if end < 0 {
		end = len(rest) - 1 // the newline
	}
	return rest[:end]
}

// offset is where field i begins; for i = Len() it is the end of the last field.
func (t Tuple) offset(i int) int {
	if t.format == Binary {
		at := 2
		for ; i > 0; i-- {
			at += 4 + max(int(int32(binary.BigEndian.Uint32(t.raw[at:]))), 0)
		}
		return at
	}
	at := 0
	for ; i > 0; i-- {
		end := bytes.IndexByte(t.raw[at:], '\t')
		if end < 0 {
			return len(t.raw) - 1
		}
		at += end + 1
	}
	return at
}

// Append appends the tuple's fields from the given one on, as a tuple.
func (t Tuple) Append(dst []byte, from int) []byte {
	if t.format == Binary {
		dst = binary.BigEndian.AppendUint16(dst, uint16(t.Len()-from))
	}
	return append(dst, t.raw[t.offset(from):]...)
}

// Tail gives the tuple from the given field on without copying it. It overwrites
// the bytes of the fields that are left out: the tuple itself is lost.
func (t Tuple) Tail(from int) Tuple {
	if from == 0 {
		return t
	}
	start := t.offset(from)
	if t.format == Binary {
		start -= 2 // a field has at least four bytes, so there is room
		binary.BigEndian.PutUint16(t.raw[start:], uint16(t.Len()-from))
	}
	return Tuple{format: t.format, raw: t.raw[start:]}
}

// Bytes is the tuple as it stands in a stream.
func (t Tuple) Bytes() []byte { return t.raw }

// AppendFields appends the named fields, in that order, as a tuple.
func (t Tuple) AppendFields(dst []byte, fields ...int) []byte {
	if t.format == Binary {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(fields)))
		for _, i := range fields {
			dst = append(dst, t.Span(i)...)
		}
		return dst
	}
	for n, i := range fields {
		if n > 0 {
			dst = append(dst, '\t')
		}
		dst = append(dst, t.Span(i)...)
	}
	return append(dst, '\n')
}

// Clone gives a tuple that stays valid.
func (t Tuple) Clone() Tuple { return Tuple{format: t.format, raw: slices.Clone(t.raw)} }

// unescape undoes the escapes that servers write: one letter for each control
// character, and a backslash before a character that stands for itself.
func unescape(span []byte) []byte {
	out := make([]byte, 0, len(span))
	for i := 0; i < len(span); i++ {
		c := span[i]
		if c == '\\' && i+1 < len(span) {
			i++
			c = escaped(span[i])
		}
		out = append(out, c)
	}
	return out
}

func escaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'v':
		return '\v'
	}
	return c
}
