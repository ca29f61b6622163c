package verify

import (
	"iter"
	"math/bits"
)

// element stands for one row: the hash of its primary key and the digest of the
// row, as the server computed them.
type element struct{ key, digest uint64 }

// residue is an element that one side has and the other has not.
type residue struct {
	element
	side int8 // +1: only the source has it, -1: only a database
}

// cell sums the elements that fell into it; what both sides have cancels out.
// Sums, never XOR: with XOR a row that is there twice cancels itself.
type cell struct {
	key, digest uint64
	check       uint32
	count       int32
}

const (
	// minCells (300 kB) makes it unlikely that two of some hundred elements share all
	// three places and cannot be told apart: 1 in a million.
	minCells = 3 * (1 << 12)
	// maxCells bounds the memory of a table's comparison to 9.4 MB; it tells about
	// 320 000 differing elements apart.
	maxCells = 3 * (1 << 17)
	// peelable is the load up to which a sketch almost surely comes apart (0.818 for
	// three places a row in large sketches), with a margin.
	peelable = 0.75
)

// sketch holds the difference of two sets of rows in bounded memory, however
// large the sets are (an invertible Bloom lookup table). Each element is added to
// three cells on one side and taken away from the same three on the other. A cell
// in which one element is left gives it away; taking it out of its other cells
// frees the next. Order does not matter, so each side is read in its own
// physical order, once.
//
// The places and the check depend on key and digest together and not linearly:
// hash_record_extended is a sum over the columns, and a plain sum of it over rows
// stays the same when two rows swap the values of a column.
type sketch struct {
	cells  []cell
	third  uint64 // each element has one place in each third
	slices uint64 // a power of two; only keys of one slice are taken
	slice  uint64
}

// newSketch makes one for tables of about that many rows, of at most so many cells.
func newSketch(rows, limit int64) *sketch {
	n := min(max(rows, 1)*2+minCells, limit)
	n -= n % 3
	return &sketch{cells: make([]cell, n), third: uint64(n / 3), slices: 1}
}

// cut empties the sketch and makes it take one of so many slices of the keys.
func (s *sketch) cut(slices, slice uint64) {
	clear(s.cells)
	s.slices, s.slice = slices, slice
}

func (s *sketch) takes(key uint64) bool { return mix(key)&(s.slices-1) == s.slice }

// add counts elements in (+1) or out (-1).
func (s *sketch) add(elements []element, sign int32) {
	for _, e := range elements {
		if s.slices == 1 || s.takes(e.key) {
			s.put(e, sign)
		}
	}
}

// put gives the places it touched.
func (s *sketch) put(e element, sign int32) [3]uint64 {
	at, check := s.places(e)
	for _, i := range at {
		c := &s.cells[i]
		if sign > 0 {
			c.key, c.digest, c.check, c.count = c.key+e.key, c.digest+e.digest, c.check+check, c.count+1
		} else {
			c.key, c.digest, c.check, c.count = c.key-e.key, c.digest-e.digest, c.check-check, c.count-1
		}
	}
	return at
}

// places are an element's three cells and its check.
func (s *sketch) places(e element) ([3]uint64, uint32) {
	h := mix(mix(e.key+0x9e3779b97f4a7c15) ^ e.digest)
	var at [3]uint64
	for i := range at {
		h = mix(h + 0x9e3779b97f4a7c15)
		hi, _ := bits.Mul64(h, s.third)
		at[i] = hi + uint64(i)*s.third
	}
	return at, uint32(mix(h+1) >> 32)
}

// mix spreads every bit of x over all bits of the result (the finalizer of
// splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// maxCopies is how often one element may be left over on one side: a row that moves
// between locations while they are read is seen at each, without one at the source if
// it is deleted there in time.
const maxCopies = 4

// peel takes the sketch apart and gives what only one side has. It is whole if
// nothing is left; else there were too many differences for it, or one row is
// left over more often than maxCopies.
func (s *sketch) peel() (left []residue, whole bool) {
	left = []residue{}
	for {
		before := len(left)
		for i := range s.cells {
			for at := uint64(i); ; {
				r, copies := s.alone(at)
				if copies == 0 {
					break
				}
				var places [3]uint64
				for range copies {
					places = s.put(r.element, -int32(r.side))
					left = append(left, r)
				}
				// One of its other cells may hold an element alone now; the next sweep finds the rest.
				at = places[len(left)%3]
			}
		}
		if len(left) == before {
			return left, s.empty()
		}
	}
}

// alone gives the element that a cell holds alone, and how often; 0 if it holds
// others too.
func (s *sketch) alone(at uint64) (r residue, copies int) {
	c := s.cells[at]
	r.side = 1
	if c.count < 0 {
		r.side = -1
		c = cell{key: -c.key, digest: -c.digest, check: -c.check, count: -c.count}
	}
	if c.count == 0 || c.count > maxCopies {
		return residue{}, 0
	}
	n := uint64(c.count)
	for key := range parts(c.key, n) {
		for digest := range parts(c.digest, n) {
			r.element = element{key, digest}
			places, check := s.places(r.element)
			if check*uint32(n) == c.check && places[at/s.third] == at {
				return r, int(n)
			}
		}
	}
	return residue{}, 0
}

// parts gives each x of which n copies add up to a sum, which may have overflowed.
func parts(sum, n uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		twos := bits.TrailingZeros64(n)
		odd := n >> twos
		if sum&(1<<twos-1) != 0 {
			return
		}
		inverse := odd // doubles its right bits with each round
		for range 6 {
			inverse *= 2 - odd*inverse
		}
		for high := range uint64(1) << twos {
			if !yield((sum>>twos + high<<(64-twos)) * inverse) {
				return
			}
		}
	}
}

func (s *sketch) empty() bool {
	for i := range s.cells {
		if s.cells[i] != (cell{}) {
			return false
		}
	}
	return true
}

// differing estimates how many elements differ, before the sketch is peeled: the
// counts of cells vary like a Poisson distribution, whichever sides they are from.
func (s *sketch) differing() int64 {
	var sum, squares float64
	for i := range s.cells {
		n := float64(s.cells[i].count)
		sum, squares = sum+n, squares+n*n
	}
	m := float64(len(s.cells))
	return int64((squares - sum*sum/m) / 3)
}

// slicesFor is into how many slices the keys must be cut so that each comes apart.
func (s *sketch) slicesFor(differing int64) uint64 {
	slices := uint64(1)
	for float64(differing)/float64(slices) > peelable*float64(len(s.cells)) {
		slices *= 2
	}
	return slices
}
