package journey

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// oracle holds the books against what the servers have. It works while the writers
// rest.
type oracle struct {
	w        *world
	blocks   map[string]*block
	comments map[int64]*comment
	plans    map[int64]*plan
	places   map[string]int // workspace → shard
	total    int
	examples []string
}

// newOracle joins the books; two writers that were given the same number of a sequence
// show here.
func (c *crowd) newOracle() *oracle {
	o := &oracle{w: c.w, blocks: map[string]*block{}, comments: map[int64]*comment{}, plans: map[int64]*plan{}, places: c.writers[0].places}
	for _, x := range c.writers {
		for _, b := range x.blocks {
			b.seen = 0
			o.blocks[b.id] = b
		}
		for _, n := range x.comments {
			n.seen = 0
			if o.comments[n.id] != nil {
				o.wrong("comment %d was handed out twice", n.id)
			}
			o.comments[n.id] = n
		}
		for _, p := range x.plans {
			p.seen = 0
			if o.plans[p.id] != nil {
				o.wrong("plan %d was handed out twice", p.id)
			}
			o.plans[p.id] = p
		}
	}
	return o
}

func (o *oracle) wrong(format string, args ...any) {
	o.total++
	if len(o.examples) < 8 {
		o.examples = append(o.examples, fmt.Sprintf(format, args...))
	}
}

// verdict is "" if nothing was wrong.
func (o *oracle) verdict() string {
	if o.total == 0 {
		return ""
	}
	text := fmt.Sprintf("%d rows are wrong:", o.total)
	for _, e := range o.examples {
		text += "\n  " + e
	}
	return text
}

// sourceDiffers compares the source with the books, both ways.
func (c *crowd) sourceDiffers() string {
	o := c.newOracle()
	c.w.on(c.w.sourceDSN(), func(ctx context.Context, conn *pgx.Conn) error {
		at := place{name: "source", schema: "public"}
		if err := o.readSharded(ctx, conn, at, false); err != nil {
			return err
		}
		return o.readPlans(ctx, conn, at)
	})
	o.missingSharded()
	o.missingPlans(1)
	return o.verdict()
}

// databasesDiffer compares the sharded rows of all databases together with the books,
// both ways, and each row's place with what the server says.
func (c *crowd) databasesDiffer() string {
	o := c.newOracle()
	for database := range c.w.databases() {
		c.w.on(c.w.databaseDSN(database), func(ctx context.Context, conn *pgx.Conn) error {
			if err := o.noOtherTables(ctx, conn, database); err != nil {
				return err
			}
			for at, shards := range c.w.locations() {
				if at.database != database {
					continue
				}
				if err := o.readSharded(ctx, conn, place{c.w.database(database), at.schema, shards}, c.w.storeAs); err != nil {
					return err
				}
			}
			return nil
		})
	}
	o.missingSharded()
	return o.verdict()
}

// copiesDiffer compares every database's copy of the everywhere table with the books.
func (c *crowd) copiesDiffer() string {
	o := c.newOracle()
	for database := range c.w.databases() {
		c.w.on(c.w.databaseDSN(database), func(ctx context.Context, conn *pgx.Conn) error {
			return o.readPlans(ctx, conn, place{name: c.w.database(database), schema: c.w.everywhereSchema()})
		})
	}
	o.missingPlans(c.w.databases())
	return o.verdict()
}

// place is where rows are read; shards are those that may be there, nil is any.
type place struct {
	name, schema string
	shards       []int
}

func (p place) String() string { return p.name + "." + p.schema }

func (o *oracle) readSharded(ctx context.Context, conn *pgx.Conn, at place, storeAs bool) error {
	err := read(ctx, conn, "SELECT b.id, "+blockText+" FROM "+at.schema+".block b", func(v []string) error {
		b := o.blocks[v[0]]
		if b == nil {
			o.wrong("block %s at %s was deleted or never written: %s", v[0], at, v[1])
			return nil
		}
		b.seen++
		o.judge("block "+v[0], at, b.seen, v[1], b.state, b.workspace)
		return nil
	})
	if err != nil {
		return err
	}
	stored := "''"
	if storeAs {
		stored = "c.workspace_id"
	}
	return read(ctx, conn, "SELECT c.id, "+commentText+", "+stored+" FROM "+at.schema+".comment c", func(v []string) error {
		id, err := strconv.ParseInt(v[0], 10, 64)
		n := o.comments[id]
		if n == nil {
			o.wrong("comment %s at %s was deleted or never written: %s", v[0], at, v[1])
			return err
		}
		n.seen++
		o.judge("comment "+v[0], at, n.seen, v[1], n.state, n.on.workspace)
		if storeAs && v[2] != n.on.workspace {
			o.wrong("comment %s at %s has the stored key %q instead of %s", v[0], at, v[2], n.on.workspace)
		}
		return err
	})
}

// judge holds one row that was found against the book.
func (o *oracle) judge(row string, at place, seen int, got, want, workspace string) {
	switch shard := o.places[workspace]; {
	case seen > 1:
		o.wrong("%s is at %s too", row, at)
	case got != want:
		o.wrong("%s at %s is %s instead of %s", row, at, got, want)
	case at.shards != nil && !slices.Contains(at.shards, shard):
		o.wrong("%s is at %s and belongs to shard %d", row, at, shard)
	}
}

func (o *oracle) readPlans(ctx context.Context, conn *pgx.Conn, at place) error {
	return read(ctx, conn, "SELECT p.id, "+planText+" FROM "+at.schema+".plan p", func(v []string) error {
		id, err := strconv.ParseInt(v[0], 10, 64)
		p := o.plans[id]
		if p == nil {
			o.wrong("plan %s at %s was deleted or never written", v[0], at)
			return err
		}
		p.seen++
		if v[1] != p.state {
			o.wrong("plan %s at %s is %s instead of %s", v[0], at, v[1], p.state)
		}
		return err
	})
}

// missingSharded finds what the books have and no server.
func (o *oracle) missingSharded() {
	for id, b := range o.blocks {
		if b.seen == 0 {
			o.wrong("block %s of shard %d is nowhere: %s", id, o.places[b.workspace], b.state)
		}
	}
	for id, n := range o.comments {
		if n.seen == 0 {
			o.wrong("comment %d of shard %d is nowhere: %s", id, o.places[n.on.workspace], n.state)
		}
	}
}

// missingPlans: an everywhere row is there as often as there are copies.
func (o *oracle) missingPlans(copies int) {
	for id, p := range o.plans {
		if p.seen != copies {
			o.wrong("plan %d is in %d places instead of %d", id, p.seen, copies)
		}
	}
}

// noOtherTables finds tables of the application in a schema that no shard of the
// database has.
func (o *oracle) noOtherTables(ctx context.Context, conn *pgx.Conn, database int) error {
	expected := []string{o.w.everywhereSchema() + ".plan"}
	for at := range o.w.locations() {
		if at.database == database {
			expected = append(expected, at.schema+".block", at.schema+".comment")
		}
	}
	const sql = `SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname IN ('block', 'comment', 'plan') AND c.relkind = 'r'`
	return read(ctx, conn, sql, func(v []string) error {
		if !slices.Contains(expected, v[0]) {
			o.wrong("table %s on %s is of no shard that it has", v[0], o.w.database(database))
		}
		return nil
	})
}
