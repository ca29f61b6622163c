package backfill

import (
	"sync"
	"time"
)

// sizes adapts how many pages a chunk has, per table: to about chunkTime, and to
// no more than chunkBytes.
type sizes struct {
	fixed int64 // of every chunk, if not 0

	mu      sync.Mutex
	byTable map[int]int64
}

func newSizes(fixed int64) *sizes { return &sizes{fixed: fixed, byTable: map[int]int64{}} }

// startBytes is the size of a table's first chunk: small, since nothing is known
// of its rows yet.
const startBytes = 2 << 20

// pages is the size of the next chunk of a relation.
func (s *sizes) pages(p plan) int64 {
	if s.fixed > 0 {
		return s.fixed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.byTable[p.tableNo]; n > 0 {
		return n
	}
	perPage := p.bytes / max(p.pages, 1)
	return max(startBytes/max(perPage, 8192), 1)
}

// learn takes into account how long a chunk's snapshot was open and how much it
// carried. A chunk of less than a part is written after its snapshot has closed;
// one of several parts is written while it is open, but does not get smaller than
// a part for it: what a write costs may not depend on its size, and then smaller
// chunks would only be more of them. The open-ended chunk tells nothing.
func (s *sizes) learn(c Chunk, open time.Duration, bytes int64) {
	if c.To == nil || open <= 0 {
		return
	}
	pages := *c.To - c.From
	factor := min(float64(chunkTime)/float64(open), float64(chunkBytes)/float64(max(bytes, 1)))
	if bytes > partBytes {
		factor = max(factor, float64(partBytes)/float64(bytes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTable[c.Table.No] = max(int64(float64(pages)*min(max(factor, 0.25), 2)), 1)
}
