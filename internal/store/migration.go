package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// ErrNotFound says that the state was read and holds no such row.
var ErrNotFound = errors.New("not found in shardctl's state")

// ErrPhase says that a migration is not in a phase that allows the step.
var ErrPhase = errors.New("phase changed")

// Migration is the row that everything else hangs on.
type Migration struct {
	Name             string
	Phase            migrate.Phase
	SpecDigest       string
	Spec             json.RawMessage // redacted
	SystemIdentifier string          // of the source
	CreatedAt        time.Time
	WindowEndsAt     *time.Time // end of the rollback window, once cut over
	InstallLSN       *string    // of install's last commit
	SourceDroppedAt  *time.Time // when the moved rows were removed from the source
}

// LoadMigration reads the row; ErrNotFound where the schema or the row is absent.
func LoadMigration(ctx context.Context, q postgres.Querier, name string) (*Migration, error) {
	there, err := Exists(ctx, q)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, ErrNotFound
	}
	const sql = `SELECT name, phase, spec_digest, spec, system_identifier, created_at, window_ends_at, install_lsn::text, (details->>'source_dropped_at')::timestamptz FROM shardctl.migration WHERE name = $1`
	var m Migration
	err = q.QueryRow(ctx, sql, name).Scan(&m.Name, &m.Phase, &m.SpecDigest, &m.Spec, &m.SystemIdentifier, &m.CreatedAt, &m.WindowEndsAt, &m.InstallLSN, &m.SourceDroppedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read migration %s: %w", name, err)
	}
	return &m, nil
}

// InsertMigration makes the row in phase new; one that is there stays as it is.
func InsertMigration(ctx context.Context, q postgres.Querier, m Migration) error {
	const sql = `INSERT INTO shardctl.migration (name, phase, spec_digest, spec, system_identifier) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	if _, err := q.Exec(ctx, sql, m.Name, m.Phase, m.SpecDigest, m.Spec, m.SystemIdentifier); err != nil {
		return fmt.Errorf("write migration %s: %w", m.Name, err)
	}
	return nil
}

// UpdateSpec stores a spec that changed harmlessly.
func UpdateSpec(ctx context.Context, q postgres.Querier, name, digest string, spec json.RawMessage) error {
	const sql = `UPDATE shardctl.migration SET spec_digest = $2, spec = $3, updated_at = clock_timestamp() WHERE name = $1`
	if _, err := q.Exec(ctx, sql, name, digest, spec); err != nil {
		return fmt.Errorf("write spec of %s: %w", name, err)
	}
	return nil
}

// SetPhase moves a migration if it is in a phase from which that is legal, or is
// there already; else ErrPhase.
func SetPhase(ctx context.Context, q postgres.Querier, name string, to migrate.Phase) error {
	var from migrate.Phase
	err := q.QueryRow(ctx, "SELECT phase FROM shardctl.migration WHERE name = $1 FOR UPDATE", name).Scan(&from)
	if err != nil {
		return fmt.Errorf("read phase of %s: %w", name, err)
	}
	if from == to {
		return nil
	}
	if !migrate.CanMove(from, to) {
		return fmt.Errorf("%w: %s cannot go from %s to %s", ErrPhase, name, from, to)
	}
	const sql = `UPDATE shardctl.migration SET phase = $2, updated_at = clock_timestamp() WHERE name = $1 AND phase = $3`
	tag, err := q.Exec(ctx, sql, name, to, from)
	if err != nil {
		return fmt.Errorf("set phase of %s: %w", name, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("%w: %s is no longer %s", ErrPhase, name, from)
	}
	return nil
}

// SetInstallLSN records the LSN of install's last commit: no replica that has
// not replayed it may be read by a backfill.
func SetInstallLSN(ctx context.Context, q postgres.Querier, name string) error {
	_, err := q.Exec(ctx, "UPDATE shardctl.migration SET install_lsn = pg_current_wal_insert_lsn() WHERE name = $1", name)
	if err != nil {
		return fmt.Errorf("record install of %s: %w", name, err)
	}
	return nil
}

// SetWindowEnd moves the end of the rollback window; nil clears it.
func SetWindowEnd(ctx context.Context, q postgres.Querier, name string, end *time.Time) error {
	if _, err := q.Exec(ctx, "UPDATE shardctl.migration SET window_ends_at = $2 WHERE name = $1", name, end); err != nil {
		return fmt.Errorf("set rollback window of %s: %w", name, err)
	}
	return nil
}

// NoteSourceDropped records that the moved rows are gone from the source.
func NoteSourceDropped(ctx context.Context, q postgres.Querier, name string) error {
	const sql = `UPDATE shardctl.migration SET details = details || jsonb_build_object('source_dropped_at', clock_timestamp()), updated_at = clock_timestamp() WHERE name = $1`
	if _, err := q.Exec(ctx, sql, name); err != nil {
		return fmt.Errorf("record that the moved rows are gone: %w", err)
	}
	return nil
}

// DeleteMigration forgets a migration and all rows of its state on the source.
func DeleteMigration(ctx context.Context, q postgres.Querier, name string) error {
	err := deleteRows(ctx, q, name, "marker", "position", "quarantine", "ownership", "low_water", "segment", "gap",
		"member", "captured", "fingerprint", "request", "backfill_plan", "backfill_mode", "backfill_control", "chunk", "stray", "registry", "lease", "journal")
	if err != nil {
		return err
	}
	if _, err := q.Exec(ctx, "DELETE FROM shardctl.migration WHERE name = $1", name); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// DeleteControl forgets a migration on a database.
func DeleteControl(ctx context.Context, q postgres.Querier, name string) error {
	return deleteRows(ctx, q, name, "marker", "position", "quarantine", "ownership", "low_water", "segment", "gap", "fingerprint",
		"control", "pruned", "ledger", "table_tombstone", "dropped_key", "journal")
}

func deleteRows(ctx context.Context, q postgres.Querier, name string, tables ...string) error {
	for _, table := range tables {
		if _, err := q.Exec(ctx, "DELETE FROM shardctl."+table+" WHERE migration = $1", name); err != nil {
			return fmt.Errorf("forget %s in shardctl.%s: %w", name, table, err)
		}
	}
	return nil
}
