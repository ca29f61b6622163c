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

// learn takes into account how long a chunk took and how much it carried. A
// chunk that is much smaller than asked for tells nothing.
func (s *sizes) learn(c Chunk, took time.Duration, bytes int64) {
	if c.To == nil || took <= 0 {
		return
	}
	pages := *c.To - c.From
	factor := min(float64(chunkTime)/float64(took), float64(chunkBytes)/float64(max(bytes, 1)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTable[c.Table.No] = max(int64(float64(pages)*min(max(factor, 0.25), 2)), 1)
}
