package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/shardhash"
)

const (
	clients = 4
	// workspacesEach bounds the entries of the pooler that one client uses, and so
	// the server connections that the pooler opens.
	workspacesEach = 6
	// thinkTime leaves the demo's phases some of a small machine.
	thinkTime = 2 * time.Millisecond
)

// client is one user of the application: it owns a few workspaces and writes
// them through the pooler, one request after the other.
type client struct {
	book     *ledger
	pauses   *pauses
	random   *rand.Rand
	conns    map[uuid.UUID]*pgx.Conn // by workspace
	own      []uuid.UUID
	blocks   []row
	comments []row
}

// write runs the clients until stop is closed; an error is one of the demo's own, a
// failed request is counted.
func (w *world) write(ctx context.Context, book *ledger, p *pauses, workspaces []uuid.UUID, stop <-chan struct{}) error {
	hash, err := shardhash.New("uuid", w.shards)
	if err != nil {
		return err
	}
	var g errgroup.Group
	for i := range clients {
		c := &client{book: book, pauses: p, random: rand.New(rand.NewPCG(uint64(i), 1)), conns: map[uuid.UUID]*pgx.Conn{}}
		for j := range workspacesEach {
			c.own = append(c.own, workspaces[(i*workspacesEach+j)%len(workspaces)])
		}
		g.Go(func() error {
			defer c.close()
			if err := c.connect(ctx, w, hash); err != nil {
				return err
			}
			return c.loop(ctx, stop)
		})
	}
	return g.Wait()
}

func (c *client) connect(ctx context.Context, w *world, hash shardhash.Hasher) error {
	for _, id := range c.own {
		shard, err := hash.ShardText([]byte(id.String()))
		if err != nil {
			return err
		}
		cfg, err := pgx.ParseConfig(w.bouncer.DSN(fmt.Sprintf("app_%03d", shard)))
		if err != nil {
			return fmt.Errorf("address of the pooler: %w", err)
		}
		// A transaction pooler gives each transaction another server: nothing prepared.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return fmt.Errorf("connect through the pooler: %w", err)
		}
		c.conns[id] = conn
	}
	return nil
}

func (c *client) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, conn := range c.conns {
		_ = conn.Close(ctx) // the pooler ends with the demo
	}
}

func (c *client) loop(ctx context.Context, stop <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		start := time.Now()
		err := c.request(ctx)
		c.pauses.note(start, time.Now())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.pauses.failure(err)
		}
		timer.Reset(thinkTime)
	}
}

// request is one transaction of the application.
func (c *client) request(ctx context.Context) error {
	workspace := c.own[c.random.IntN(len(c.own))]
	switch n := c.random.IntN(10); {
	case n < 3 || len(c.blocks) < 20:
		return c.insertPage(ctx, workspace)
	case n < 7:
		return c.updateBlock(ctx)
	case n < 8 && len(c.comments) > 20:
		return c.deleteComment(ctx)
	case n < 9:
		return c.deleteBlock(ctx)
	default:
		return c.reinsert(ctx)
	}
}

// change runs statements as one transaction on a workspace's connection.
func (c *client) change(ctx context.Context, workspace uuid.UUID, touched []uuid.UUID, fn func(tx pgx.Tx) error) error {
	conn := c.conns[workspace]
	err := pgx.BeginFunc(ctx, conn, fn)
	c.book.count(err, touched...)
	if err != nil && conn.IsClosed() {
		again, connErr := pgx.ConnectConfig(ctx, conn.Config())
		if connErr != nil {
			return errors.Join(err, connErr)
		}
		c.conns[workspace] = again
	}
	return err
}

// insertPage makes a block and two comments on it.
func (c *client) insertPage(ctx context.Context, workspace uuid.UUID) error {
	block := row{table: "block", id: uuid.New(), parent: workspace, body: fmt.Sprint("new ", c.random.Uint64()), version: 1}
	notes := make([]row, 2)
	for i := range notes {
		notes[i] = row{table: "comment", id: uuid.New(), parent: block.id, body: fmt.Sprint("note ", c.random.Uint64()), version: 1}
	}
	err := c.change(ctx, workspace, []uuid.UUID{block.id, notes[0].id, notes[1].id}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO block (id, workspace_id, body, version) VALUES ($1, $2, $3, $4)", block.id.String(), workspace.String(), block.body, block.version); err != nil {
			return err
		}
		for _, n := range notes {
			if _, err := tx.Exec(ctx, "INSERT INTO comment (id, block_id, body, version) VALUES ($1, $2, $3, $4)", n.id.String(), block.id.String(), n.body, n.version); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.blocks, c.comments = append(c.blocks, block), append(c.comments, notes...)
		c.book.acknowledge(append(notes, block)...)
	}
	return err
}

func (c *client) updateBlock(ctx context.Context) error {
	i := c.random.IntN(len(c.blocks))
	b := c.blocks[i]
	b.body, b.version = fmt.Sprint("edit ", c.random.Uint64()), b.version+1
	err := c.change(ctx, b.parent, []uuid.UUID{b.id}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE block SET body = $2, version = $3 WHERE id = $1", b.id.String(), b.body, b.version)
		return one(tag.RowsAffected(), err)
	})
	if err == nil {
		c.blocks[i] = b
		c.book.acknowledge(b)
	}
	return err
}

func (c *client) deleteComment(ctx context.Context) error {
	i := c.random.IntN(len(c.comments))
	n := c.comments[i]
	err := c.change(ctx, c.workspaceOf(n.parent), []uuid.UUID{n.id}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM comment WHERE id = $1", n.id.String())
		return one(tag.RowsAffected(), err)
	})
	if err == nil {
		c.comments = append(c.comments[:i], c.comments[i+1:]...)
		c.book.remove(n.id)
	}
	return err
}

// deleteBlock deletes a block; its comments go by cascade.
func (c *client) deleteBlock(ctx context.Context) error {
	i := c.random.IntN(len(c.blocks))
	b := c.blocks[i]
	gone := []uuid.UUID{b.id}
	var left []row
	for _, n := range c.comments {
		if n.parent == b.id {
			gone = append(gone, n.id)
		} else {
			left = append(left, n)
		}
	}
	err := c.change(ctx, b.parent, gone, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM block WHERE id = $1", b.id.String())
		return one(tag.RowsAffected(), err)
	})
	if err == nil {
		c.comments = left
		c.blocks = append(c.blocks[:i], c.blocks[i+1:]...)
		c.book.remove(gone...)
	}
	return err
}

// reinsert deletes a comment and inserts one of the same id in one transaction.
func (c *client) reinsert(ctx context.Context) error {
	if len(c.comments) == 0 {
		return nil
	}
	i := c.random.IntN(len(c.comments))
	n := c.comments[i]
	n.body, n.version = fmt.Sprint("again ", c.random.Uint64()), n.version+1
	err := c.change(ctx, c.workspaceOf(n.parent), []uuid.UUID{n.id}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM comment WHERE id = $1", n.id.String())
		if err := one(tag.RowsAffected(), err); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO comment (id, block_id, body, version) VALUES ($1, $2, $3, $4)", n.id.String(), n.parent.String(), n.body, n.version)
		return err
	})
	if err == nil {
		c.comments[i] = n
		c.book.acknowledge(n)
	}
	return err
}

func (c *client) workspaceOf(block uuid.UUID) uuid.UUID {
	for _, b := range c.blocks {
		if b.id == block {
			return b.parent
		}
	}
	return c.own[0]
}

// one makes a write that touched no row a failure: the row was acknowledged before.
func one(n int64, err error) error {
	if err == nil && n != 1 {
		return fmt.Errorf("%d rows instead of one: an acknowledged row is not where it is routed", n)
	}
	return err
}

// pauses is how long requests took, as the clients saw it.
type pauses struct {
	mu       sync.Mutex
	requests []span
	errors   []string
}

type span struct{ start, end time.Time }

func (p *pauses) note(start, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, span{start, end})
}

func (p *pauses) failure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errors) < 5 {
		p.errors = append(p.errors, err.Error())
	}
}
