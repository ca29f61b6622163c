package backfill

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Look reads the situation of a database that `plan` chooses a mode from. Conn
// is a session on that database.
func Look(ctx context.Context, conn *pgx.Conn, l *layout.Layout, database string) (Situation, error) {
	c, err := store.LoadControl(ctx, conn, l.Spec.Migration)
	if err != nil {
		return Situation{}, err
	}
	return situation(ctx, conn, l, database, c)
}

// settled is a database's mode as this run goes by it.
type settled struct {
	mode       Mode
	reason     string
	generation int64 // control.plan
}

// settle decides a database's mode, or keeps to what was decided before: the
// control row is the truth, the source's backfill_mode its explanation.
func settle(ctx context.Context, source *session, conn *pgx.Conn, l *layout.Layout, database string, asked Mode) (settled, error) {
	c, err := store.LoadControl(ctx, conn, l.Spec.Migration)
	if err != nil {
		return settled{}, err
	}
	if c.Owner != store.OwnerSource {
		return settled{}, ownedFailure(database, c.Owner)
	}
	before, err := recorded(ctx, source, l.Spec.Migration, database)
	if err != nil {
		return settled{}, err
	}
	switch {
	case c.Held:
		return settled{Fast, "its ticks wait already", c.Plan}, refuseOther(database, asked, Fast)
	case before != nil && before.generation == c.Plan:
		if before.mode == Fast {
			before.reason = "its keys are built; what is missing is copied live"
		}
		before.mode = Live
		return *before, refuseOther(database, asked, Live)
	}
	s, err := choose(ctx, source, conn, l, database, asked)
	if err != nil {
		return settled{}, err
	}
	return s, record(ctx, source, l.Spec.Migration, database, s)
}

// choose decides for a database that nothing was copied to.
func choose(ctx context.Context, source *session, conn *pgx.Conn, l *layout.Layout, database string, asked Mode) (settled, error) {
	look, err := Look(ctx, conn, l, database)
	if err != nil {
		return settled{}, err
	}
	if err := growth(ctx, source, l.Spec.Migration, &look, logs(l)); err != nil {
		return settled{}, err
	}
	mode, reason := ChooseMode(look)
	if asked != "" && asked != mode {
		if asked == Fast && look.notFast() != "" {
			return settled{}, modeFailure(database, look.notFast())
		}
		mode, reason = asked, "it was asked for"
	}
	var c store.Control
	if mode == Fast {
		var refused errNotFast
		c, err = enterFast(ctx, conn, l, database)
		switch {
		case err == nil:
			return settled{Fast, reason, c.Plan}, nil
		case !errors.As(err, &refused):
			return settled{}, err
		case asked == Fast:
			return settled{}, modeFailure(database, refused.why)
		}
		mode, reason = Live, refused.why
	}
	if c, err = store.LoadControl(ctx, conn, l.Spec.Migration); err != nil {
		return settled{}, err
	}
	if c.Held { // another process entered fast mode meanwhile
		return settled{Fast, "its ticks wait already", c.Plan}, nil
	}
	return settled{mode, reason, c.Plan}, nil
}

// growth adds what the plans have to copy, and how fast the logs have grown since
// install or since they were last turned.
func growth(ctx context.Context, source *session, migration string, s *Situation, logs []string) error {
	const sql = `SELECT coalesce((SELECT sum(bytes) FROM shardctl.backfill_plan WHERE migration = $1), 0)::bigint,
	coalesce((SELECT sum(pg_total_relation_size(to_regclass(l))) FROM unnest($2::text[]) l)
	  / greatest(extract(epoch FROM clock_timestamp() - (SELECT min(switched_at) FROM shardctl.segment WHERE migration = $1)), 1), 0)::bigint`
	err := source.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, migration, logs).Scan(&s.Bytes, &s.LogPerSecond)
	})
	if err != nil {
		return fmt.Errorf("read how fast the logs grow: %w", err)
	}
	return nil
}

func modeFailure(database, why string) error {
	return migrate.Refuse("backfill.mode", database, "fast mode is not possible: "+why, "leave --mode out, or use --mode live")
}

func refuseOther(database string, asked, is Mode) error {
	if asked == "" || asked == is || asked == Live {
		return nil // what is being copied fast goes on; live was only preferred
	}
	return modeFailure(database, "part of it is copied already")
}

func recorded(ctx context.Context, source *session, migration, database string) (*settled, error) {
	var s settled
	err := source.with(ctx, func(conn *pgx.Conn) error {
		const sql = `SELECT mode, reason, plan FROM shardctl.backfill_mode WHERE migration = $1 AND database = $2`
		return conn.QueryRow(ctx, sql, migration, database).Scan(&s.mode, &s.reason, &s.generation)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the mode of %s: %w", database, err)
	}
	return &s, nil
}

func record(ctx context.Context, source *session, migration, database string, s settled) error {
	const sql = `INSERT INTO shardctl.backfill_mode (migration, database, plan, mode, reason) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (migration, database) DO UPDATE SET plan = excluded.plan, mode = excluded.mode, reason = excluded.reason, finished_at = NULL`
	err := source.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, migration, database, s.generation, s.mode, s.reason)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the mode of %s: %w", database, err)
	}
	return nil
}
