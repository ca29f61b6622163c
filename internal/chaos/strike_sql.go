package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/sleep"
)

// beHostile makes the source end sessions that take their time.
func (g *game) beHostile(ctx context.Context) error {
	for _, setting := range []string{"idle_in_transaction_session_timeout = '1s'", "statement_timeout = '5s'", "lock_timeout = '1s'"} {
		whom := "ROLE " + operator
		if g.random.IntN(2) > 0 {
			whom = "DATABASE " + g.name
		}
		if err := execSQL(ctx, g.source.DSN("postgres"), "ALTER "+whom+" SET "+setting); err != nil {
			return err
		}
	}
	return nil
}

// fillDisk takes the room under a database until shardctl has come upon it.
func (g *game) fillDisk(ctx context.Context, a *act) (string, error) {
	log, err := os.ReadFile(g.bases[0].LogFile())
	if err != nil {
		return "", err
	}
	free, err := g.disk.fill()
	if err != nil {
		return "", err
	}
	at, ok := until(ctx, a, func() (string, bool) {
		now, _ := os.ReadFile(g.bases[0].LogFile())
		for line := range bytes.Lines(now[min(len(log), len(now)):]) {
			if bytes.Contains(line, []byte("No space left on device")) && bytes.Contains(line, []byte("shardctl ")) {
				return strings.TrimSpace(string(line)), true
			}
		}
		return "", false
	})
	if ok {
		err = sleep.For(ctx, g.between(100*time.Millisecond, 1500*time.Millisecond))
	}
	return at, errors.Join(err, free())
}

// longTransaction writes a row on the side that serves and takes its time to commit it.
func (g *game) longTransaction(ctx context.Context, a *act) (at string, err error) {
	n, schema := g.source, "public"
	client := g.crowd.clients[g.random.IntN(clients)]
	workspace := client.own[0]
	if a.name == back {
		shard := g.crowd.places[workspace]
		n, schema = g.bases[shard*databases/shards], fmt.Sprintf("shard_%03d", shard)
	}
	id, text := uuid.New(), document("written for long", 1)
	err = on(ctx, g.dsn(n), func(conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return nil
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		sql := fmt.Sprintf("INSERT INTO %s.block (id, workspace_id, doc, version) VALUES ($1, $2, $3::jsonb, 1)", schema)
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return nil
		}
		if _, err := tx.Exec(ctx, sql, id.String(), workspace.String(), text); err != nil {
			return nil // its time was over: a fence stands, or the server is gone
		}
		seen := ""
		if a.switches() {
			if c := a.main.command(); c != nil {
				seen = a.main.args[0] + " was at work"
			}
		} else {
			seen, _ = g.moment(ctx, a, g.nodes()...)
		}
		d := g.between(time.Second, 4*time.Second)
		if err := sleep.For(ctx, d); err != nil {
			return err
		}
		written := change{id: row{"block", workspace, text, 1}}
		if err := tx.Commit(ctx); err != nil {
			g.crowd.book.doubt(written)
			return nil
		}
		g.crowd.book.acknowledge(written)
		if seen != "" {
			at = fmt.Sprintf("%s, for %s", seen, d.Round(time.Millisecond))
		}
		return nil
	})
	return at, err
}

// addColumn changes a table under way: everything stops, the change is applied on all
// sides and acknowledged, and everything goes on.
func (g *game) addColumn(ctx context.Context, a *act) (string, error) {
	at, ok := g.moment(ctx, a, g.source)
	if !ok {
		return "", nil
	}
	const alter = "SET lock_timeout = '2s'; ALTER TABLE public.block ADD COLUMN note text DEFAULT 'none'"
	if err := g.patiently(ctx, func() error { return execSQL(ctx, g.dsn(g.source), alter) }); err != nil {
		return "", err
	}
	if err := g.patiently(ctx, func() error {
		if r := g.catchup.result(); r.Code != 4 || !strings.Contains(r.Stdout, "public.block") {
			return fmt.Errorf("catchup did not stop at the change: %s", r)
		}
		return nil
	}); err != nil {
		return "", err
	}
	g.catchup.hold()
	a.main.hold()
	defer g.catchup.release()
	defer a.main.release()
	const early = "SET statement_timeout = 0; SET lock_timeout = 0; UPDATE public.block SET note = 'early ' || id WHERE id::text < '3'"
	if err := g.patiently(ctx, func() error { return execSQL(ctx, g.dsn(g.source), early) }); err != nil {
		return "", err
	}
	if err := g.applyFixes(ctx); err != nil {
		return "", err
	}
	err := g.patiently(ctx, func() error {
		res, err := g.once(ctx, "doctor", "--acknowledge-ddl", "--yes")
		if err == nil && res.Code != 0 {
			err = fmt.Errorf("doctor --acknowledge-ddl: %s", res)
		}
		return err
	})
	return at, err
}

// applyFixes runs on each database what doctor says of its columns.
func (g *game) applyFixes(ctx context.Context) error {
	fixes := map[*node][]string{}
	err := g.patiently(ctx, func() error {
		res, err := g.once(ctx, "doctor")
		if err != nil {
			return err
		}
		doc, err := res.Document()
		if err != nil {
			return err
		}
		fixes = g.fixes(doc)
		if len(fixes) != len(g.bases) {
			return fmt.Errorf("doctor has fixes for %d databases: %s", len(fixes), res)
		}
		return nil
	})
	for n, list := range fixes {
		for _, sql := range list {
			err = errors.Join(err, execSQL(ctx, g.dsn(n), sql))
		}
	}
	return err
}

func (g *game) fixes(doc binary.Document) map[*node][]string {
	fixes := map[*node][]string{}
	checks, _ := doc["checks"].([]any)
	for _, c := range checks {
		check, _ := c.(map[string]any)
		fix, _ := check["fix"].(string)
		object, _ := check["object"].(string)
		if check["id"] != "columns" || check["state"] != "broken" {
			continue
		}
		for _, n := range g.bases {
			if strings.HasSuffix(object, n.name) {
				fixes[n] = append(fixes[n], fix)
			}
		}
	}
	return fixes
}

// patiently tries until it works, within what a command may take. An error of the
// server's that will not go by itself ends it.
func (g *game) patiently(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(stuckAfter / 2)
	for {
		err := try()
		var pg *pgconn.PgError
		if err == nil || errors.As(err, &pg) && strings.HasPrefix(pg.Code, "42") {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %w", errStuck, err)
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
