package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

const (
	// drawWait bounds one wait for the transactions that drew from a sequence: those
	// that want to draw meanwhile queue behind it.
	drawWait = 200 * time.Millisecond
	// drawPatience bounds the tries.
	drawPatience = 30 * time.Second
)

// laneSource gives the source's sequences its lane where it will own some shards and
// databases others. How it stepped before is in the registry, for abort. A sequence
// that is in its lane already is left alone: rollbacks keep it.
func (w *window) laneSource(ctx context.Context) error {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	if err != nil || w.phaseAfter(w.command, owners) != migrate.PartlyCutOver {
		return err
	}
	sequences, err := w.sourceSequences(ctx)
	if err != nil {
		return err
	}
	connections, err := maxConnections(ctx, w.side)
	if err != nil {
		return err
	}
	own := laneOf(w.cfg.Layout.Spec, store.OwnerSource)
	for _, s := range sequences {
		if s.Increment == s.step(own) && own.first(s.Last, s.Increment) == s.Last {
			continue
		}
		if err := w.laneOne(ctx, s, own, connections); err != nil {
			return err
		}
	}
	return nil
}

// laneOne moves one sequence of the source into the source's lane.
func (w *window) laneOne(ctx context.Context, s sequence, own lane, connections int64) error {
	name := postgres.Table(s.Schema, s.Name)
	if s.Increment != s.step(own) { // else the first registration stands
		err := store.Register(ctx, w.side, store.Object{Migration: w.cfg.migration(), Place: store.PlaceSource, Kind: "sequence step", Name: name,
			Undo: fmt.Sprintf("ALTER SEQUENCE IF EXISTS %s INCREMENT BY %d", name, s.Increment)})
		if err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(drawPatience); ; {
		err := postgres.WithTx(ctx, w.side, pgx.TxOptions{}, func(tx pgx.Tx) error { return s.enterLane(ctx, tx, own, connections) })
		if postgres.SQLState(err) != lockTimeout {
			return err
		}
		if time.Now().After(deadline) {
			return migrate.Refuse("sequence.in_use", s.Schema+"."+s.Name, "transactions that drew from it stay open", "wait for them or end them, then run the command again")
		}
		if err := sleep.For(ctx, drawWait); err != nil {
			return errors.Join(err, fmt.Errorf("wait for those that drew from %s", name))
		}
	}
}

// enterLane is one try. The changed step keeps everyone from drawing until the commit.
func (s sequence) enterLane(ctx context.Context, tx pgx.Tx, own lane, connections int64) error {
	name := postgres.Table(s.Schema, s.Name)
	sql := fmt.Sprintf("SET LOCAL lock_timeout = %d; ALTER SEQUENCE %s INCREMENT BY %d", drawWait.Milliseconds(), name, s.step(own))
	if _, err := tx.Exec(ctx, sql); err != nil {
		return fmt.Errorf("set the lane of %s: %w", name, err)
	}
	if err := tx.QueryRow(ctx, "SELECT last_value FROM "+name).Scan(&s.Last); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	start, err := s.laneStart(own, connections)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT setval($1::text::regclass, $2, false)", name, start); err != nil {
		return fmt.Errorf("set the lane of %s: %w", name, err)
	}
	return nil
}
