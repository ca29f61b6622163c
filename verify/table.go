package verify

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// tableResult is what a full comparison of one table found.
type tableResult struct {
	rows      int64
	found     []Difference
	truncated bool
	unsettled []openKey
	overflow  int64  // unsettled keys beyond those
	partial   string // why not everything could be told; "" if it could
}

// rereads is how often a table that is rewritten meanwhile is read anew.
const rereads = 3

// compareTable compares all rows of one table with all databases.
func (v *Verifier) compareTable(ctx context.Context, t *layout.Table) (*tableResult, error) {
	b, err := v.builder(ctx, v.servers())
	if err != nil {
		return nil, err
	}
	heaps, err := v.sourceHeaps(ctx, v.read, t)
	if err != nil {
		return nil, err
	}
	c := &tableScan{v: v, b: b, t: t, databases: v.databases, estimated: totalRows(heaps)}
	c.sketch = newSketch(c.elements(), v.limits.cells)
	j := v.newJudge(b, t, v.databases)
	partial, err := c.compare(ctx, j)
	if err != nil {
		return nil, err
	}
	if err := j.finish(ctx, v.limits.rounds); err != nil {
		return nil, err
	}
	v.observe(Event{Kind: TableDone, Table: t.Name(), Rows: c.rows, Estimated: c.rows})
	return &tableResult{rows: c.rows, found: j.found, truncated: j.truncated, unsettled: j.maybe, overflow: j.overflow, partial: partial}, nil
}

// elements estimates how many the sketch will see of one side.
func (c *tableScan) elements() int64 {
	if c.t.Everywhere() {
		return c.estimated * int64(len(c.databases))
	}
	return c.estimated
}

// compare reads the table and narrows what differs to rows. If so much differs that
// one sketch cannot tell it apart, the table is read again for one slice of the
// keys after the other, until all is told or enough is found. It says why something
// could not be told.
func (c *tableScan) compare(ctx context.Context, j *judge) (partial string, err error) {
	left, differing, windows, err := c.readStill(ctx, j)
	if err != nil {
		return "", err
	}
	if left != nil {
		return c.narrow(ctx, j, newSuspects(left), windows)
	}
	slices := max(c.sketch.slicesFor(differing), 2)
	if slices > c.v.limits.slices {
		partial = fmt.Sprintf("about %d rows of %s differ; only a part of them was looked at", differing, c.t.Name())
	}
	for slice := range min(slices, c.v.limits.slices) {
		c.sketch.cut(slices, slice)
		left, _, windows, err := c.readStill(ctx, j)
		if err != nil {
			return "", err
		}
		if left == nil {
			partial = "too many rows of " + c.t.Name() + " differ to tell which"
			continue
		}
		lost, err := c.narrow(ctx, j, newSuspects(left), windows)
		if lost != "" {
			partial = lost
		}
		if err != nil || j.truncated {
			return partial, err
		}
	}
	return partial, nil
}

// readStill reads both sides into the sketch and takes it apart; again if a
// relation was rewritten meanwhile. Left is nil if it does not come apart.
func (c *tableScan) readStill(ctx context.Context, j *judge) (left []residue, differing int64, windows []logWindow, err error) {
	for range rereads {
		windows, err := c.windows(ctx, j)
		if err != nil {
			return nil, 0, nil, err
		}
		if err := c.v.awaitReplica(ctx); err != nil { // for the positions of these windows
			return nil, 0, nil, err
		}
		moved, err := c.run(ctx)
		if err != nil {
			return nil, 0, nil, err
		}
		if moved {
			c.sketch.cut(c.sketch.slices, c.sketch.slice)
			continue
		}
		if err := closeWindows(ctx, windows); err != nil {
			return nil, 0, nil, err
		}
		differing = c.sketch.differing()
		left, whole := c.sketch.peel()
		if !whole {
			return nil, differing, windows, nil
		}
		return left, differing, windows, nil
	}
	return nil, 0, nil, migrate.Refuse("verify.rewritten", c.t.Name(), "the table was rewritten each time it was read",
		"wait for VACUUM FULL, CLUSTER or ALTER TABLE to end, then verify again")
}
