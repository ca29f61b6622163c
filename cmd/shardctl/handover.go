package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
)

// turnPatience bounds the tries for the locks of a database's tables.
const turnPatience = 30 * time.Second

// handOverEverywhere gives a database its copies of the everywhere tables, where
// the spec says so.
func (s *session) handOverEverywhere(ctx context.Context, l *layout.Layout, name string, conn *pgx.Conn) error {
	if s.spec.Complete.EverywhereOwner == store.OwnerSource || s.followsSource(l) {
		return nil
	}
	return openEverywhere(ctx, l, name, conn, func(tx pgx.Tx) error { return cutover.AdvanceEverywhere(ctx, l, s.source, tx) })
}

// followsSource reports whether an everywhere table goes on being brought forward.
func (s *session) followsSource(l *layout.Layout) bool {
	everywhere := slices.ContainsFunc(l.Tables, func(t *layout.Table) bool { return t.Everywhere() })
	return everywhere && s.spec.Complete.EverywhereOwner == "source"
}

// openEverywhere gives a database its copies of the everywhere tables. Before that, advance
// moves their sequences: the application's first row without a key must find a new one.
func openEverywhere(ctx context.Context, l *layout.Layout, name string, conn *pgx.Conn, advance func(pgx.Tx) error) error {
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return turned(ctx, tx, l.Spec.Migration, fence.EverywhereTables(l, name), func(store.Control) error {
			if err := advance(tx); err != nil {
				return err
			}
			return target.OpenEverywhere(ctx, tx, l, name)
		})
	})
}

// turned runs fn with the control row and the locks that turning tables needs: the
// pre-lock, and then an upgrade that gives way to the application.
func turned(ctx context.Context, tx pgx.Tx, migration string, tables []string, fn func(store.Control) error) error {
	if err := postgres.PreLock(ctx, tx, tables); err != nil {
		return err
	}
	c, err := store.ChangeControl(ctx, tx, migration)
	if err != nil {
		return err
	}
	if len(tables) > 0 {
		if err := postgres.UpgradeLock(ctx, tx, "SHARE ROW EXCLUSIVE", tables, time.Now().Add(turnPatience)); err != nil {
			return err
		}
	}
	return fn(c)
}
