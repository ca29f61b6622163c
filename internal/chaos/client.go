package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/sleep"
)

const (
	// thinkTime makes 200 writes a second at most. Servers, commands and clients share the
	// machine, and a catch-up that is starved of it is none of the faults.
	thinkTime = 30 * time.Millisecond
	// requestTime is longer than any pause that the spec allows.
	requestTime = 20 * time.Second
	// retryTime is between two tries of a client that cannot connect.
	retryTime = 50 * time.Millisecond
)

// family is a block with the comments on it. One client writes it.
type family struct {
	block, workspace uuid.UUID
	comments         []uuid.UUID
}

// client is one user of the application, who writes through the pooler.
type client struct {
	book     *ledger
	address  func(shard int) string // of the pooler's entry for it
	places   map[uuid.UUID]int      // workspace → shard
	own      []uuid.UUID            // workspaces
	families []*family
	apart    *atomic.Bool // the databases serve, or will: no move to another shard
	random   *rand.Rand
	conns    map[int]*pgx.Conn // by shard
	no       uint64
}

// statement has to touch one row.
type statement struct {
	sql  string
	args []any
}

// request is one transaction of the application.
type request struct {
	workspace  uuid.UUID // that it is routed by
	family     *family   // nil for a new one
	change     change
	statements []statement
	then       func() // once it is acknowledged
}

// loop makes requests until the context ends.
func (c *client) loop(ctx context.Context) {
	defer c.close()
	for ctx.Err() == nil {
		wait := thinkTime
		if !c.perform(ctx, c.draw()) {
			wait = retryTime
		}
		_ = sleep.For(ctx, wait) // its end is looked at above
	}
}

// perform makes a request and notes what came of it. A failure before COMMIT was sent,
// or one of the server's own at COMMIT, means that nothing happened.
func (c *client) perform(ctx context.Context, r *request) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	conn, err := c.connection(ctx, c.places[r.workspace])
	if err != nil {
		return false
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	for _, s := range r.statements {
		tag, err := tx.Exec(ctx, s.sql, s.args...)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows", tag.RowsAffected())
			c.book.complain("an acknowledged row is not where it is routed: %s %v: %v", s.sql, s.args, err)
		}
		if err != nil {
			_ = tx.Rollback(ctx) // the connection is closed if it cannot
			return false
		}
	}
	err = tx.Commit(ctx)
	switch {
	case err == nil:
		c.book.acknowledge(r.change)
		r.then()
		return true
	case refused(err):
		return false
	}
	c.book.doubt(r.change)
	c.forget(r.family)
	return false
}

// refused reports whether a COMMIT certainly did not happen.
func refused(err error) bool {
	var pg *pgconn.PgError
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	return errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "23" || pg.Code[:2] == "40" && pg.Code != "40003")
}

// forget leaves a family alone from now on.
func (c *client) forget(f *family) {
	for i := range c.families {
		if c.families[i] == f {
			c.families[i] = c.families[len(c.families)-1]
			c.families = c.families[:len(c.families)-1]
			return
		}
	}
}

// connection gives the session through a shard's entry, opened anew if it was lost.
func (c *client) connection(ctx context.Context, shard int) (*pgx.Conn, error) {
	if conn := c.conns[shard]; conn != nil && !conn.IsClosed() {
		return conn, nil
	}
	cfg, err := pgx.ParseConfig(c.address(shard))
	if err != nil {
		return nil, err
	}
	// A transaction pooler gives each transaction another server: nothing prepared.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		c.conns[shard] = conn
	}
	return conn, err
}

func (c *client) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, conn := range c.conns {
		_ = conn.Close(ctx) // the pooler ends with the seed
	}
}
