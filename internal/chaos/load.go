package main

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/placement"
)

//go:embed schema.sql
var schemaSQL string

const (
	clients        = 6
	workspacesEach = 16
	blocks         = 8_000
	comments       = 12_000
)

// crowd is the application: its clients and what they were told.
type crowd struct {
	book    *ledger
	places  map[uuid.UUID]int // workspace → shard, by the server's word
	clients []*client
	apart   atomic.Bool
	stop    context.CancelFunc
	group   sync.WaitGroup
	once    sync.Once
}

// newCrowd makes the tables and their rows on the source, and the clients that own them.
func newCrowd(ctx context.Context, conn *pgx.Conn, seed uint64, address func(int) string) (*crowd, error) {
	if _, err := conn.Exec(ctx, schemaSQL); err != nil {
		return nil, fmt.Errorf("make the application's tables: %w", err)
	}
	c := &crowd{book: newLedger()}
	var keys []string
	for i := range clients {
		x := &client{book: c.book, address: address, apart: &c.apart, random: rand.New(rand.NewPCG(seed, uint64(i))), conns: map[int]*pgx.Conn{}}
		for range workspacesEach {
			id := uuid.New()
			x.own, keys = append(x.own, id), append(keys, id.String())
		}
		c.clients = append(c.clients, x)
	}
	shardOf, err := placement.OfUUIDs(ctx, conn, shards, keys)
	if err != nil {
		return nil, err
	}
	c.places = map[uuid.UUID]int{}
	for id, shard := range shardOf {
		c.places[uuid.MustParse(id)] = shard
	}
	for _, x := range c.clients {
		x.places = c.places
	}
	return c, c.load(ctx, conn)
}

func (c *crowd) load(ctx context.Context, conn *pgx.Conn) error {
	tables := map[string]change{"workspace": {}, "block": {}, "comment": {}}
	var all []*family
	for i, x := range c.clients {
		for _, id := range x.own {
			tables["workspace"][id] = row{table: "workspace", body: fmt.Sprintf("loaded %d", i), version: 1}
		}
		for n := range blocks / clients {
			f := &family{block: uuid.New(), workspace: x.own[n%len(x.own)]}
			tables["block"][f.block] = row{"block", f.workspace, document(fmt.Sprintf("loaded %d", n), 1), 1}
			x.families, all = append(x.families, f), append(all, f)
		}
	}
	for n := range comments {
		f, id := all[n%len(all)], uuid.New()
		f.comments = append(f.comments, id)
		tables["comment"][id] = row{"comment", f.block, fmt.Sprintf("loaded %d", n), 1}
	}
	for _, table := range []string{"workspace", "block", "comment"} {
		if err := copyRows(ctx, conn, table, tables[table]); err != nil {
			return err
		}
		c.book.load(tables[table])
	}
	_, err := conn.Exec(ctx, "ANALYZE")
	return err
}

// columns of each table, in the order of row's fields; "" is not there.
var columns = map[string]struct{ parent, body string }{
	"workspace": {"", "body"}, "block": {"workspace_id", "doc"}, "comment": {"block_id", "body"},
}

func copyRows(ctx context.Context, conn *pgx.Conn, table string, rows change) error {
	names := []string{"id", columns[table].body, "version"}
	if parent := columns[table].parent; parent != "" {
		names = append(names, parent)
	}
	ids := slices.Collect(maps.Keys(rows))
	source := pgx.CopyFromSlice(len(ids), func(i int) ([]any, error) {
		r := rows[ids[i]]
		return []any{[16]byte(ids[i]), r.body, r.version, [16]byte(r.parent)}[:len(names)], nil
	})
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{table}, names, source); err != nil {
		return fmt.Errorf("load %s: %w", table, err)
	}
	return nil
}

// begin lets the clients work until end.
func (c *crowd) begin(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	for _, x := range c.clients {
		c.group.Go(func() { x.loop(ctx) })
	}
}

// end makes the clients finish the request that each of them is at.
func (c *crowd) end() {
	c.once.Do(func() {
		c.stop()
		c.group.Wait()
	})
}
