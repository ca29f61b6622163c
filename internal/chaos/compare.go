package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
)

// reader reads all rows of one side.
type reader func(context.Context) ([]found, error)

func (g *game) sourceRows(ctx context.Context) (rows []found, err error) {
	err = on(ctx, g.dsn(g.source), func(conn *pgx.Conn) (err error) {
		rows, err = readPlace(ctx, conn, "the source", "public", -1)
		return err
	})
	return rows, err
}

func (g *game) databaseRows(ctx context.Context) (rows []found, err error) {
	for i, n := range g.bases {
		err := on(ctx, g.dsn(n), func(conn *pgx.Conn) error {
			for shard := i * shards / databases; shard < (i+1)*shards/databases; shard++ {
				schema := fmt.Sprintf("shard_%03d", shard)
				here, err := readPlace(ctx, conn, n.name+"."+schema, schema, shard)
				if err != nil {
					return err
				}
				rows = append(rows, here...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// compare stops the clients and holds the ledger against the side that serves, at once,
// and against the side that follows, which has a while to become level.
func (g *game) compare(ctx context.Context, serving reader) error {
	if err := g.serves(ctx, serving); err != nil {
		return err
	}
	rows, err := serving(ctx)
	if err != nil {
		return err
	}
	return g.follows(ctx, rows)
}

// serves stops the clients and holds the ledger against the side that serves.
func (g *game) serves(ctx context.Context, serving reader) error {
	g.record.say(" compare")
	g.crowd.end()
	rows, err := serving(ctx)
	if err != nil {
		return err
	}
	v := g.crowd.judge(rows)
	v.lost += len(g.crowd.book.wrong)
	v.examples = append(v.examples, g.crowd.book.wrong...)
	g.book(v, "the side that serves")
	if !v.clean() {
		return errWrong
	}
	return nil
}

// book counts what a comparison found.
func (g *game) book(v verdict, side string) {
	g.record.add(v)
	if !v.clean() {
		g.record.say("  %s: %d lost, %d doubled, %d misplaced:\n    %s", side, v.lost, v.doubled, v.misplaced, strings.Join(v.examples, "\n    "))
	}
}

// follows compares both sides until they are equal.
func (g *game) follows(ctx context.Context, serving []found) error {
	other := g.sourceRows
	if serving[0].shard < 0 {
		other = g.databaseRows
	}
	for deadline := time.Now().Add(followWithin); ; {
		rows, err := other(ctx)
		if err != nil {
			return err
		}
		v := g.crowd.judge(rows)
		want, got := notes(serving), notes(rows)
		for id, note := range want {
			if got[id] != note {
				v.add(&v.lost, "block %s: the added column is %q on the side that follows instead of %q", id, got[id], note)
			}
		}
		if v.clean() {
			return nil
		}
		if time.Now().After(deadline) {
			g.book(v, "the side that follows, after "+followWithin.String())
			return errWrong
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// keepLogs copies what helps to understand a failure to a folder, and says where.
func (g *game) keepLogs() {
	dir, err := os.MkdirTemp("", "shardctl-chaos-failed-")
	if err != nil {
		return
	}
	for _, n := range g.nodes() {
		copyFile(n.LogFile(), filepath.Join(dir, n.name+".log"))
	}
	copyFile(g.bouncer.LogFile(), filepath.Join(dir, "pgbouncer.log"))
	copyFile(g.spec, filepath.Join(dir, "shardctl.yaml"))
	if err := os.WriteFile(filepath.Join(dir, "commands.log"), []byte(g.transcript()), 0o600); err != nil {
		return
	}
	g.record.say("  the logs are in %s", dir)
}

func copyFile(from, to string) {
	if text, err := os.ReadFile(from); err == nil {
		_ = os.WriteFile(to, text, 0o600) // only for a person to read
	}
}
