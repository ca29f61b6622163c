package verify

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
)

// tableScan reads a table on all sides into a sketch.
type tableScan struct {
	v         *Verifier
	b         builder
	t         *layout.Table
	databases []*server
	estimated int64

	mu     sync.Mutex
	sketch *sketch
	rows   int64 // read on the source
}

// run reads every side once, all at the same time. It reports whether a relation
// was rewritten meanwhile, so that nothing can be told.
func (c *tableScan) run(ctx context.Context) (moved bool, err error) {
	c.rows = 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + c.v.limits.streams)
	var changed [2]bool
	var mu sync.Mutex
	g.Go(func() error {
		moved, err := c.readSource(ctx)
		mu.Lock()
		defer mu.Unlock()
		changed[0] = moved
		return err
	})
	for _, d := range c.databases {
		g.Go(func() error {
			moved, err := c.readTarget(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			changed[1] = changed[1] || moved
			return err
		})
	}
	err = g.Wait()
	return changed[0] || changed[1], err
}

func (c *tableScan) readSource(ctx context.Context) (moved bool, err error) {
	s := c.v.read
	heaps, err := c.v.sourceHeaps(ctx, s, c.t)
	if err != nil {
		return false, err
	}
	locked, pace := c.sourceTables(), newPacer(c.v.cfg)
	buffer := make([]element, 0, c.v.limits.rows)
	for _, h := range heaps {
		var elements []element
		err := c.v.walk(ctx, reading{server: s, heap: h, locked: locked, before: pace.wait,
			read: func(tx pgx.Tx, where string) (_ int64, err error) {
				elements, err = copyElements(ctx, tx, c.b.scanSource(c.t, h.table, where), buffer)
				buffer = elements
				return int64(len(elements)), err
			},
			done: func() {
				pace.read(len(elements))
				c.addSource(elements)
			},
		})
		if err != nil {
			return false, err
		}
	}
	after, err := c.v.sourceHeaps(ctx, s, c.t)
	return rewritten(heaps, after), err
}

func (c *tableScan) sourceTables() []string {
	tables := []string{c.t.QualifiedSource()}
	for _, p := range c.t.Chain() {
		tables = append(tables, p.QualifiedSource())
	}
	return tables
}

// addSource counts rows in; those of an everywhere table once for each database.
func (c *tableScan) addSource(elements []element) {
	c.mu.Lock()
	c.rows += int64(len(elements))
	if c.t.Everywhere() {
		for _, d := range c.databases {
			c.sketch.add(mark(elements, d), 1)
			mark(elements, d) // and back
		}
	} else {
		c.sketch.add(elements, 1)
	}
	rows := c.rows
	c.mu.Unlock()
	c.v.observe(Event{Kind: Reading, Table: c.t.Name(), Rows: rows, Estimated: max(rows, c.estimated)})
}

// addTarget counts rows out.
func (c *tableScan) addTarget(elements []element, d *server) {
	if c.t.Everywhere() {
		mark(elements, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sketch.add(elements, -1)
}

// mark makes a database's copy of an everywhere table differ from every other's;
// a second call takes the mark away again.
func mark(elements []element, d *server) []element {
	salt := mix(uint64(d.number) + 1)
	for i := range elements {
		elements[i].digest ^= salt
	}
	return elements
}

func (c *tableScan) readTarget(ctx context.Context, d *server) (moved bool, err error) {
	heaps, err := c.v.targetHeaps(ctx, d, c.t)
	if err != nil {
		return false, err
	}
	buffer := make([]element, 0, c.v.limits.rows)
	for _, h := range heaps {
		var elements []element
		err := c.v.walk(ctx, reading{server: d, heap: h, locked: targetTables(c.v, c.t, []place{h.place}),
			read: func(tx pgx.Tx, where string) (_ int64, err error) {
				elements, err = copyElements(ctx, tx, c.b.scanTarget(c.t, h.place, h.table, where), buffer)
				buffer = elements
				return int64(len(elements)), err
			},
			done: func() { c.addTarget(elements, d) },
		})
		if err != nil {
			return false, err
		}
	}
	after, err := c.v.targetHeaps(ctx, d, c.t)
	return rewritten(heaps, after), err
}

// targetTables are a table and its parents at places of a database.
func targetTables(v *Verifier, t *layout.Table, places []place) []string {
	var tables []string
	for _, p := range places {
		tables = append(tables, p.table)
		for _, parent := range t.Chain() {
			tables = append(tables, v.cfg.Layout.QualifiedTarget(parent, p.Location))
		}
	}
	return tables
}

// copyElements reads a query of two bigint columns into the buffer, which grows if
// it must. All rows are held until the server has sent the last: a chunk counts
// whole or not at all.
func copyElements(ctx context.Context, tx pgx.Tx, query string, buffer []element) ([]element, error) {
	r := elementReader{elements: buffer[:0]}
	if _, err := tx.Conn().PgConn().CopyTo(ctx, &r, "COPY ("+query+") TO STDOUT (FORMAT binary)"); err != nil {
		return r.elements, err
	}
	return r.elements, r.close()
}

// elementReader takes a binary COPY of two bigint columns apart, however it is cut
// into writes.
type elementReader struct {
	elements []element
	rest     []byte
	started  bool
	ended    bool
}

const (
	copyHeader  = 19 // signature, flags, length of the extension, which is 0
	copyTuple   = 26 // number of columns, then length and value of each
	copyTrailer = 2
)

func (r *elementReader) Write(p []byte) (int, error) {
	n := len(p)
	if len(r.rest) > 0 {
		r.rest = append(r.rest, p...)
		p = r.rest
	}
	if !r.started && len(p) >= copyHeader {
		p, r.started = p[copyHeader:], true
	}
	for r.started && len(p) >= copyTuple {
		if binary.BigEndian.Uint16(p) != 2 || binary.BigEndian.Uint32(p[2:]) != 8 || binary.BigEndian.Uint32(p[14:]) != 8 {
			return 0, fmt.Errorf("row %d of the digests is not two numbers", len(r.elements)+1)
		}
		r.elements = append(r.elements, element{binary.BigEndian.Uint64(p[6:]), binary.BigEndian.Uint64(p[18:])})
		p = p[copyTuple:]
	}
	r.ended = r.started && len(p) == copyTrailer && binary.BigEndian.Uint16(p) == 0xffff
	r.rest = append(r.rest[:0], p...)
	return n, nil
}

func (r *elementReader) close() error {
	if !r.ended {
		return fmt.Errorf("the digests end after row %d without a trailer", len(r.elements))
	}
	return nil
}
