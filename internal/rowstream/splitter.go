package rowstream

import (
	"io"
	"runtime/debug"
)

// Splitter takes a stream as it is written and hands each tuple to a function:
// the way to use a connection that pushes its COPY data. A piece that holds whole
// tuples, as servers send them, is not copied.
type Splitter struct {
	frame  framer
	each   func(Tuple) error
	rest   []byte // the begun tuple
	need   int    // bytes of rest before it is worth looking again
	failed error

	// Large is called before a tuple of at least LargeTuple bytes is gathered, once
	// for each; an error ends the stream. Nil: nothing is asked.
	Large func() error
	large int // LargeTuple
	asked bool
}

// LargeTuple is the size from which a caller may want to have few at a time.
const LargeTuple = 16 << 20

// NewSplitter makes a splitter. The tuple that each is given is valid until each
// returns; an error of each ends the stream with it.
func NewSplitter(f Format, each func(Tuple) error) *Splitter {
	return &Splitter{frame: newFramer(f), each: each, large: LargeTuple}
}

// Write takes the next piece of the stream.
func (s *Splitter) Write(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	if len(s.rest) == 0 {
		rest, err := s.split(p)
		if err != nil {
			return 0, err
		}
		s.keep(rest)
		return len(p), nil
	}
	s.rest = append(s.rest, p...)
	if len(s.rest) < s.need {
		return len(p), nil
	}
	if err := s.ask(len(s.rest)); err != nil {
		return 0, err
	}
	rest, err := s.split(s.rest)
	if err != nil {
		return 0, err
	}
	exact := s.frame.format == Binary && s.need > cap(s.rest)
	if len(rest) < len(s.rest) || exact {
		s.keep(rest)
	}
	return len(p), nil
}

// split hands out the whole tuples of buf and gives what remains.
func (s *Splitter) split(buf []byte) ([]byte, error) {
	for {
		size, need, tuple, err := s.frame.next(buf)
		if err == nil && tuple {
			err = s.each(Tuple{format: s.frame.format, raw: buf[:size:size]})
		}
		if err != nil {
			s.failed = err
			return nil, err
		}
		if size == 0 {
			s.need = need
			return buf, s.ask(need)
		}
		s.asked = false
		buf = buf[size:]
	}
}

// ask asks for leave before a tuple grows large.
func (s *Splitter) ask(size int) error {
	if s.asked || s.Large == nil || size < s.large {
		return nil
	}
	s.asked = true
	s.failed = s.Large()
	return s.failed
}

// keep stores the begun tuple, in a buffer that it will fit in where its size is
// known, and gives the room of a very large one back.
func (s *Splitter) keep(rest []byte) {
	switch {
	case len(rest) == 0 && cap(s.rest) <= keepSize:
		s.rest = s.rest[:0]
	case len(rest) == 0:
		size := cap(s.rest)
		s.rest = nil
		giveBack(size)
	case s.need > cap(s.rest) || cap(s.rest) > keepSize && s.need < keepSize:
		// With room for the fields after it: the end of a large field is not the tuple's.
		s.rest = append(make([]byte, 0, max(s.need, len(rest))+readSize), rest...)
	default:
		s.rest = append(s.rest[:0], rest...) // may overlap: append copies as memmove does
	}
}

// Close reports whether the stream was complete: io.ErrUnexpectedEOF if not.
func (s *Splitter) Close() error {
	if s.failed != nil {
		return s.failed
	}
	if !s.frame.whole(len(s.rest)) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// giveBackSize is from which size on the room of a tuple goes back to the system at once.
const giveBackSize = 16 << 20

// giveBack returns the room of a very large tuple, which nothing refers to any more: the
// collector alone would let the next one be read beside it.
func giveBack(size int) {
	if size >= giveBackSize {
		debug.FreeOSMemory()
	}
}
