package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Direction is which way entries go.
type Direction string

// The directions. A forward position lives on the database, a reverse one on
// the source: each with the data it speaks of.
const (
	Forward Direction = "forward"
	Reverse Direction = "reverse"
)

// FirstSnapshot is the snapshot of a position that has seen nothing; its marker
// is the nil uuid, which needs no marker row.
const FirstSnapshot = "1:1:"

// Position is how far a database has been brought.
type Position struct {
	SystemIdentifier string // of the side whose log is read
	Timeline         int64
	Marker           uuid.UUID
	Snapshot         string // pg_snapshot in text
	Tick             int64
	LSN              string // of the marker's commit
	AppliedAt        time.Time
}

// LoadPosition reads a position; ErrNotFound where there is none.
func LoadPosition(ctx context.Context, q postgres.Querier, migration, database string, d Direction) (Position, error) {
	const sql = `SELECT system_identifier, timeline, marker, snapshot::text, tick, lsn::text, applied_at
	FROM shardctl.position WHERE migration = $1 AND database = $2 AND direction = $3`
	var p Position
	err := q.QueryRow(ctx, sql, migration, database, d).Scan(&p.SystemIdentifier, &p.Timeline, (*[16]byte)(&p.Marker), &p.Snapshot, &p.Tick, &p.LSN, &p.AppliedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("%s position of %s: %w", d, database, ErrNotFound)
	}
	if err != nil {
		return p, fmt.Errorf("%s position of %s: %w", d, database, err)
	}
	return p, nil
}

// SavePosition writes a position, in the transaction that writes its data.
func SavePosition(ctx context.Context, tx postgres.Querier, migration, database string, d Direction, p Position) error {
	const sql = `INSERT INTO shardctl.position (migration, database, direction, system_identifier, timeline, marker, snapshot, tick, lsn)
	VALUES ($1, $2, $3, $4, $5, $6, $7::text::pg_snapshot, $8, $9::text::pg_lsn)
	ON CONFLICT (migration, database, direction) DO UPDATE SET system_identifier = excluded.system_identifier, timeline = excluded.timeline,
	marker = excluded.marker, snapshot = excluded.snapshot, tick = excluded.tick, lsn = excluded.lsn, applied_at = clock_timestamp()`
	_, err := tx.Exec(ctx, sql, migration, database, d, p.SystemIdentifier, p.Timeline, [16]byte(p.Marker), p.Snapshot, p.Tick, p.LSN)
	if err != nil {
		return fmt.Errorf("save %s position of %s: %w", d, database, err)
	}
	return nil
}

// SaveFirstPosition writes the position that has seen nothing, where there is none.
func SaveFirstPosition(ctx context.Context, tx postgres.Querier, migration, database string, d Direction, log postgres.Identity) error {
	const sql = `INSERT INTO shardctl.position (migration, database, direction, system_identifier, timeline, marker, snapshot, tick, lsn)
	VALUES ($1, $2, $3, $4, $5, $6, '1:1:', 0, '0/0') ON CONFLICT DO NOTHING`
	_, err := tx.Exec(ctx, sql, migration, database, d, log.SystemIdentifier, log.Timeline, [16]byte(uuid.Nil))
	if err != nil {
		return fmt.Errorf("save first %s position of %s: %w", d, database, err)
	}
	return nil
}

// Marker makes a snapshot durable on the side that owns the log.
type Marker struct {
	ID       uuid.UUID
	Tick     int64
	Snapshot string
	LSN      string // after the commit
}

// WriteMarker commits a marker for a snapshot that was taken before, and waits
// until it is on disk. Conn is not in a transaction.
func WriteMarker(ctx context.Context, conn postgres.Querier, migration, snapshot string) (Marker, error) {
	m := Marker{ID: uuid.New(), Snapshot: snapshot}
	// The insert position after the commit covers all the snapshot saw; pg_current_wal_lsn() may be behind what is visible.
	const insert = `INSERT INTO shardctl.marker (id, migration, tick, snapshot, lsn) VALUES ($1, $2, nextval('shardctl.tick_seq'), $3::text::pg_snapshot, pg_current_wal_insert_lsn()) RETURNING tick`
	if err := conn.QueryRow(ctx, insert, [16]byte(m.ID), migration, snapshot).Scan(&m.Tick); err != nil {
		return Marker{}, fmt.Errorf("write marker: %w", err)
	}
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&m.LSN); err != nil {
		return Marker{}, fmt.Errorf("read the marker's lsn: %w", err)
	}
	return m, nil
}

// MarkerExists reports whether the side that owns the log still holds a marker
// with that snapshot. False means that it went back in time.
func MarkerExists(ctx context.Context, q postgres.Querier, id uuid.UUID, snapshot string) (bool, error) {
	if id == uuid.Nil && snapshot == FirstSnapshot {
		return true, nil
	}
	var there bool
	const sql = `SELECT EXISTS (SELECT FROM shardctl.marker WHERE id = $1 AND snapshot::text = $2)`
	if err := q.QueryRow(ctx, sql, [16]byte(id), snapshot).Scan(&there); err != nil {
		return false, fmt.Errorf("look for marker: %w", err)
	}
	return there, nil
}

// NewestTick is the newest tick with a committed marker, 0 before the first.
func NewestTick(ctx context.Context, q postgres.Querier, migration string) (int64, error) {
	var tick int64
	if err := q.QueryRow(ctx, "SELECT coalesce(max(tick), 0) FROM shardctl.marker WHERE migration = $1", migration).Scan(&tick); err != nil {
		return 0, fmt.Errorf("read newest tick: %w", err)
	}
	return tick, nil
}

// PruneMarkers removes markers older than keep that no position in use names.
// The newest always stays.
func PruneMarkers(ctx context.Context, q postgres.Querier, migration string, keep time.Duration, inUse []uuid.UUID) error {
	ids := make([]string, len(inUse))
	for i, id := range inUse {
		ids[i] = id.String()
	}
	const sql = `DELETE FROM shardctl.marker WHERE migration = $1 AND at < clock_timestamp() - $2::interval AND NOT id::text = ANY($3)
	AND tick < (SELECT max(tick) FROM shardctl.marker WHERE migration = $1)`
	if _, err := q.Exec(ctx, sql, migration, keep, ids); err != nil {
		return fmt.Errorf("prune markers: %w", err)
	}
	return nil
}
