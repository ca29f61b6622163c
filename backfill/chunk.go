package backfill

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/layout"
)

// Chunk is a range of pages of one relation, taken from the queue.
type Chunk struct {
	Plan     int64
	No       int
	Table    *layout.Table
	Relation string // quoted: the table or its leaf
	Filenode uint32 // of the plan
	From     int64  // first page
	To       *int64 // page after the last; nil: to the end
	Note     int64  // the newest tick that the chunk's snapshot certainly sees
	Pending  []string
}

// String names a chunk in messages.
func (c Chunk) String() string {
	to := "end"
	if c.To != nil {
		to = fmt.Sprint(*c.To)
	}
	return fmt.Sprintf("chunk %d of %s (plan %d, pages %d to %s)", c.No, c.Relation, c.Plan, c.From, to)
}
