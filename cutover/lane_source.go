package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// stepKind is the registry's word for how a sequence of the source stepped of its own.
const stepKind = "sequence step"

// ownIncrements finds what sequences that draw from a lane step by of their own.
func ownIncrements(ctx context.Context, source postgres.Querier, spec *migrate.Spec, sequences []sequence) error {
	rows, err := source.Query(ctx, `SELECT name, substring(undo FROM '-?[0-9]+$')::bigint FROM shardctl.registry
		WHERE migration = $1 AND place = $2 AND kind = $3 AND removed_at IS NULL`, spec.Migration, store.PlaceSource, stepKind)
	registered := map[string]int64{}
	if err == nil {
		var name string
		var increment int64
		_, err = pgx.ForEachRow(rows, []any{&name, &increment}, func() error { registered[name] = increment; return nil })
	}
	if err != nil && postgres.SQLState(err) != undefinedTable { // plan looks before there is a registry
		return fmt.Errorf("read sequences: %w", err)
	}
	lanes := laneOf(spec, store.OwnerSource).of
	for i, s := range sequences {
		own := registered[postgres.Table(s.Schema, s.Name)]
		// Lanes that stepped by their number alone were too narrow: mended when they are met.
		// Any other step is a change of the application's since.
		if own != 0 && (s.Step == own*lanes || s.Step == lanes || s.Step == -lanes) {
			sequences[i].Increment = own
		}
	}
	return nil
}

// undefinedTable is the server's code for a table that is not there.
const undefinedTable = "42P01"

// partly reports whether the switch leaves some shards to the source and others to databases.
func (w *window) partly(ctx context.Context) (bool, error) {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	return w.phaseAfter(w.command, owners) == migrate.PartlyCutOver, err
}

// laneSource gives the source's sequences its lane where it will own some shards and
// databases others. How it stepped before is in the registry, for abort. A sequence
// that is in its lane already is left alone: rollbacks keep it, and so does a switch that
// is aborted or refused after this, for a lane alone is a sequence with gaps.
func (w *window) laneSource(ctx context.Context, sequences, drawn []sequence, connections int64) error {
	if partly, err := w.partly(ctx); err != nil || !partly {
		return err
	}
	own := laneOf(w.cfg.Layout.Spec, store.OwnerSource)
	for i, s := range sequences {
		if s.inLane(own) {
			continue
		}
		if s.Step != s.step(own) { // else the first registration stands
			name := postgres.Table(s.Schema, s.Name)
			err := store.Register(ctx, w.side, store.Object{Migration: w.cfg.migration(), Place: store.PlaceSource, Kind: stepKind, Name: name,
				Undo: fmt.Sprintf("ALTER SEQUENCE IF EXISTS %s INCREMENT BY %d", name, s.Increment)})
			if err != nil {
				return err
			}
		}
		if err := drawn[i].laneLive(ctx, w.side, own, connections); err != nil {
			return err
		}
	}
	return nil
}

// laneOthers sees to the databases that own shards and stay as they are: a lane of theirs
// may be too narrow.
func (w *window) laneOthers(ctx context.Context, drawn []sequence, connections int64) error {
	owning, err := w.owning(ctx)
	if err != nil {
		return err
	}
	return w.eachOf(ctx, owning, func(ctx context.Context, name string, conn *pgx.Conn) error {
		theirs := w.targets(drawn)
		if err := readSteps(ctx, conn, theirs); err != nil {
			return err
		}
		for _, t := range theirs {
			if t.Step == missing || t.Step == t.step(w.lane(name)) {
				continue
			}
			if err := t.laneLive(ctx, conn, w.lane(name), connections); err != nil {
				return err
			}
		}
		return nil
	})
}

// owning lists the databases that own shards and are not moved.
func (w *window) owning(ctx context.Context) (names []string, err error) {
	owners, err := store.LoadOwnership(ctx, w.side, w.cfg.migration())
	for _, o := range owners {
		if o.Owner == o.Database && slices.Contains(w.others, o.Database) {
			names = append(names, o.Database)
		}
	}
	return names, err
}

// laneLive moves a sequence that is drawn from into a lane, past s.Last.
func (s sequence) laneLive(ctx context.Context, conn *pgx.Conn, own lane, connections int64) error {
	for deadline := time.Now().Add(drawPatience); ; {
		err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return s.enterLane(ctx, tx, own, connections) })
		if postgres.SQLState(err) != lockTimeout {
			return err
		}
		if time.Now().After(deadline) {
			return migrate.Refuse("sequence.in_use", s.Schema+"."+s.Name, "transactions that drew from it stay open", "wait for them or end them, then run the command again")
		}
		if err := sleep.For(ctx, drawWait); err != nil {
			return errors.Join(err, fmt.Errorf("wait for those that drew from %s", postgres.Table(s.Schema, s.Name)))
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
	var last int64
	if err := tx.QueryRow(ctx, "SELECT last_value FROM "+name).Scan(&last); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if s.past(last, s.Last) {
		s.Last = last
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
