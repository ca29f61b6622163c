package backfill

import (
	"io"
	"sync"

	"github.com/shardctl/shardctl/internal/rowstream"
)

// part is what a worker has read and not yet written: the tuples of each bin,
// as they go on the wire. It is used again for the next one.
type part struct {
	format rowstream.Format
	bins   []bin
	size   int // bytes in all bins
	rows   int64
}

type bin struct {
	data     []byte
	ends     []int // of the tuples in data
	borrowed bool  // data is somebody else's
}

// keepBin is the largest buffer of a bin that is kept for the next part.
const keepBin = 1 << 20

// begin empties the part for the bins of a route.
func (p *part) begin(r *route) {
	p.format, p.size, p.rows = r.format, 0, 0
	for len(p.bins) < len(r.bins) {
		p.bins = append(p.bins, bin{})
	}
	for i := range p.bins {
		b := &p.bins[i]
		if b.borrowed || cap(b.data) > max(keepBin, 2*partBytes/max(len(r.bins), 1)) {
			b.data = nil
		}
		b.data, b.ends, b.borrowed = b.data[:0], b.ends[:0], false
	}
}

// add takes a tuple, without its first fields.
func (p *part) add(to int, t rowstream.Tuple, from int) {
	b := &p.bins[to]
	b.data = t.Append(b.data, from)
	b.ends = append(b.ends, len(b.data))
	p.size += t.Size()
	p.rows++
}

// borrow makes the part hold one tuple without copying it, until begin.
func (p *part) borrow(to int, t rowstream.Tuple) {
	p.bins[to] = bin{data: t.Bytes(), ends: []int{t.Size()}, borrowed: true}
	p.size, p.rows = t.Size(), 1
}

// tuple is the i-th of the bin.
func (b *bin) tuple(f rowstream.Format, i int) rowstream.Tuple {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return rowstream.NewTuple(f, b.data[start:b.ends[i]])
}

// stream is a COPY stream of the tuples that are not dropped. Dropped is sorted.
func (b *bin) stream(f rowstream.Format, dropped []int) *pieceReader {
	pieces := [][]byte{f.Header()}
	start := 0
	for _, d := range dropped {
		end := 0
		if d > 0 {
			end = b.ends[d-1]
		}
		if end > start {
			pieces = append(pieces, b.data[start:end])
		}
		start = b.ends[d]
	}
	return &pieceReader{pieces: append(pieces, b.data[start:], f.Trailer())}
}

// pieceReader reads pieces one after another.
type pieceReader struct {
	mu     sync.Mutex
	pieces [][]byte
}

// Read implements io.Reader.
func (r *pieceReader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) && len(r.pieces) > 0 {
		m := copy(p[n:], r.pieces[0])
		n += m
		if r.pieces[0] = r.pieces[0][m:]; len(r.pieces[0]) == 0 {
			r.pieces = r.pieces[1:]
		}
	}
	if n == 0 && len(r.pieces) == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// close ends the stream, so that the pieces may be used again: where a connection
// breaks, the driver gives up a COPY while it still reads.
func (r *pieceReader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces = nil
}
