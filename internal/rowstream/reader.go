package rowstream

import (
	"errors"
	"io"
)

// readSize is how much is asked of the underlying reader at least; keepSize is
// the largest buffer kept after the tuple that needed it.
const (
	readSize = 64 << 10
	keepSize = 1 << 20
)

// Reader pulls tuples out of a stream.
type Reader struct {
	r     io.Reader
	frame framer
	buf   []byte // buf[at:] is read but not given out yet
	at    int
}

// NewReader makes a reader of a stream in the given format.
func NewReader(r io.Reader, f Format) *Reader { return &Reader{r: r, frame: newFramer(f)} }

// Next gives the next tuple, valid until the next call. The end of a complete
// stream is io.EOF; a stream cut short is io.ErrUnexpectedEOF.
func (r *Reader) Next() (Tuple, error) {
	r.release()
	for {
		size, need, tuple, err := r.frame.next(r.buf[r.at:])
		if err != nil {
			return Tuple{}, err
		}
		if size == 0 {
			if err := r.fill(need); err != nil {
				return Tuple{}, err
			}
			continue
		}
		raw := r.buf[r.at : r.at+size : r.at+size]
		r.at += size
		if tuple {
			return Tuple{format: r.frame.format, raw: raw}, nil
		}
	}
}

// release gives back the room of a very large tuple.
func (r *Reader) release() {
	if rest := len(r.buf) - r.at; cap(r.buf) > keepSize && rest < readSize {
		size := cap(r.buf)
		r.buf, r.at = append(make([]byte, 0, 2*readSize), r.buf[r.at:]...), 0
		giveBack(size)
	}
}

// fill reads until at least need bytes are there.
func (r *Reader) fill(need int) error {
	if cap(r.buf)-r.at < need+readSize/2 {
		r.grow(need)
	}
	for len(r.buf)-r.at < need {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err == nil || len(r.buf)-r.at >= need {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if r.frame.whole(len(r.buf) - r.at) {
			return io.EOF
		}
		return io.ErrUnexpectedEOF
	}
	return nil
}

// grow makes room for need bytes and a read more. A text's length is not known
// before its end, so the room doubles; a binary one's is.
func (r *Reader) grow(need int) {
	rest := r.buf[r.at:]
	room := need + readSize
	if r.frame.format == Text {
		room = max(room, 2*len(rest))
	}
	if room <= cap(r.buf) {
		r.buf, r.at = r.buf[:copy(r.buf[:cap(r.buf)], rest)], 0
		return
	}
	r.buf, r.at = append(make([]byte, 0, max(room, 2*readSize)), rest...), 0
}
