package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// someNodes draws a server, or all.
func (g *game) someNodes() []*node {
	nodes := g.nodes()
	if i := g.random.IntN(len(nodes) + 1); i < len(nodes) {
		return nodes[i : i+1]
	}
	return nodes
}

// connections does something to shardctl's connections to a server, or to all, at a moment
// at which it is at work there. It gives their number and what was at work; 0 if nothing was
// hit.
func (g *game) connections(ctx context.Context, a *act, do func(*node) int) (n int, at string) {
	nodes := g.someNodes()
	at, ok := g.moment(ctx, a, nodes...)
	if !ok {
		return 0, ""
	}
	for _, node := range nodes {
		n += do(node)
	}
	return n, at
}

// cut ends shardctl's connections to a server, or to all.
func (g *game) cut(ctx context.Context, a *act) (string, error) {
	n, at := g.connections(ctx, a, func(node *node) int { return len(node.proxy.cutAll()) })
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d connections: %s", n, at), nil
}

// hang makes shardctl's connections half-open for a while.
func (g *game) hang(ctx context.Context, a *act) (string, error) {
	var thaws []func()
	defer func() {
		for _, thaw := range thaws {
			thaw()
		}
	}()
	n, at := g.connections(ctx, a, func(node *node) int {
		names, thaw := node.proxy.freeze()
		thaws = append(thaws, thaw)
		return len(names)
	})
	if n == 0 {
		return "", nil
	}
	d := g.between(time.Second, maxPause+2*time.Second)
	return fmt.Sprintf("%d connections for %s: %s", n, d.Round(time.Millisecond), at), sleep.For(ctx, d)
}

// slowDown delays all that shardctl and a server say.
func (g *game) slowDown(ctx context.Context, a *act) (string, error) {
	d := g.between(10*time.Millisecond, 250*time.Millisecond)
	defer func() {
		for _, node := range g.nodes() {
			node.proxy.slow(0)
		}
	}()
	n, at := g.connections(ctx, a, func(node *node) int { return len(node.proxy.slow(d)) })
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d connections by %s: %s", n, d.Round(time.Millisecond), at), sleep.For(ctx, g.between(time.Second, 3*time.Second))
}

// cutCommit ends a connection right after it has sent COMMIT: the server does it, and
// nobody is told.
func (g *game) cutCommit(ctx context.Context, a *act) (string, error) {
	nodes := g.nodes()
	if g.random.IntN(2) > 0 {
		nodes = nodes[:1] // the source
	}
	// Of a switch, now and then, the session that commits who owns the shards.
	var skip atomic.Int32
	skip.Store(int32(g.random.IntN(6)))
	only := ""
	if a.switches() && g.random.IntN(2) > 0 {
		only = "shardctl " + a.main.args[0]
		skip.Store(int32(g.random.IntN(2)))
	}
	hit := make(chan string, 1)
	for _, n := range nodes {
		n.proxy.whenCommitting(func(name string) bool {
			if strings.HasSuffix(name, " lease") || only != "" && name != only || skip.Add(-1) != -1 {
				return false
			}
			hit <- fmt.Sprintf("%q to %s", name, n.name)
			return true
		})
		defer n.proxy.whenCommitting(nil)
	}
	at, _ := until(ctx, a, func() (string, bool) {
		select {
		case at := <-hit:
			return at, true
		default:
			return "", false
		}
	})
	return at, nil
}
