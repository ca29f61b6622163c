package rowstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is the cause of every error about a stream that is not COPY's.
var ErrMalformed = errors.New("malformed copy stream")

// framer finds the ends of tuples in bytes that arrive in pieces of any size.
type framer struct {
	format Format
	limit  int  // the largest tuple
	begun  bool // the header has passed
	done   bool // the trailer has passed
	seen   int  // text: bytes of the unfinished tuple known to hold no newline
}

func newFramer(f Format) framer { return framer{format: f, limit: MaxTuple} }

// next looks at the start of buf. It gives the size of what stands there in
// full, and whether that is a tuple (else a header or trailer, to be skipped); or
// size 0 and how many bytes must be there before it is worth asking again.
func (f *framer) next(buf []byte) (size, need int, tuple bool, err error) {
	switch {
	case f.done && len(buf) > 0:
		return 0, 0, false, fmt.Errorf("%w: %d bytes after the end", ErrMalformed, len(buf))
	case f.done:
		return 0, 1, false, nil
	case f.format == Text:
		return f.nextText(buf)
	case !f.begun:
		size, need, err = f.header(buf)
		return size, need, false, err
	}
	return f.nextBinary(buf)
}

func (f *framer) nextText(buf []byte) (size, need int, tuple bool, err error) {
	end := bytes.IndexByte(buf[f.seen:], '\n')
	if end < 0 {
		f.seen = len(buf)
		if f.seen > f.limit {
			return 0, 0, false, f.tooLarge(f.seen)
		}
		return 0, len(buf) + 1, false, nil
	}
	size, f.seen = f.seen+end+1, 0
	if string(buf[:size]) == "\\.\n" {
		f.done = true
		return size, 0, false, nil
	}
	return size, 0, true, nil
}

func (f *framer) header(buf []byte) (size, need int, err error) {
	if len(buf) < headerSize {
		return 0, headerSize, nil
	}
	if string(buf[:len(signature)]) != signature {
		return 0, 0, fmt.Errorf("%w: no signature", ErrMalformed)
	}
	flags := binary.BigEndian.Uint32(buf[len(signature):])
	if flags>>16 != 0 {
		return 0, 0, fmt.Errorf("%w: unknown critical flags %#x", ErrMalformed, flags)
	}
	extension := binary.BigEndian.Uint32(buf[len(signature)+4:])
	if int64(extension) > int64(f.limit) {
		return 0, 0, f.tooLarge(int(extension))
	}
	if size = headerSize + int(extension); len(buf) < size {
		return 0, size, nil
	}
	f.begun = true
	return size, 0, nil
}

func (f *framer) nextBinary(buf []byte) (size, need int, tuple bool, err error) {
	if len(buf) < 2 {
		return 0, 2, false, nil
	}
	fields := int(int16(binary.BigEndian.Uint16(buf)))
	if fields == -1 {
		f.done = true
		return 2, 0, false, nil
	}
	if fields < 0 {
		return 0, 0, false, fmt.Errorf("%w: a tuple of %d fields", ErrMalformed, fields)
	}
	size = 2
	for i := range fields {
		if len(buf) < size+4 {
			return 0, size + 4, false, nil
		}
		length := int(int32(binary.BigEndian.Uint32(buf[size:])))
		if length < -1 {
			return 0, 0, false, fmt.Errorf("%w: field %d has length %d", ErrMalformed, i, length)
		}
		if size += 4 + max(length, 0); size > f.limit {
			return 0, 0, false, f.tooLarge(size)
		}
		if len(buf) < size {
			return 0, size, false, nil
		}
	}
	return size, 0, true, nil
}

// whole reports whether a stream may end here, with rest bytes unread.
func (f *framer) whole(rest int) bool { return rest == 0 && (f.done || f.format == Text) }

func (f *framer) tooLarge(size int) error {
	return fmt.Errorf("%w: a tuple of at least %d bytes, the most is %d", ErrMalformed, size, f.limit)
}
