package rowstream

import "fmt"

// Format is the wire form of a COPY stream.
type Format int

// The formats. Text is that of the default options: tab, \N, backslash escapes.
const (
	Binary Format = iota
	Text
)

// String gives the word that COPY's FORMAT option takes.
func (f Format) String() string {
	switch f {
	case Binary:
		return "binary"
	case Text:
		return "text"
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// MaxTuple bounds one tuple; no server sends a longer one, as it builds a row in
// a buffer of at most 1 GB.
const MaxTuple = 1 << 30

// signature begins a binary stream; flags and the length of the header's
// extension follow.
const signature = "PGCOPY\n\xff\r\n\x00"

// headerSize is the signature, the flags and the extension's length.
const headerSize = len(signature) + 4 + 4

// Header is what a stream of the format begins with.
func (f Format) Header() []byte {
	if f == Binary {
		return append([]byte(signature), 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return nil
}

// Trailer is what a stream of the format ends with.
func (f Format) Trailer() []byte {
	if f == Binary {
		return []byte{0xff, 0xff}
	}
	return nil
}
