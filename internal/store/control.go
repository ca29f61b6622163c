package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// OwnerSource is the owner of shards that have not moved.
const OwnerSource = "source"

// ErrTerm says that another process has raised the term since: the caller is
// stale and must do nothing more.
var ErrTerm = errors.New("the term was raised by another process")

// Control is a database's own word on who owns its shards.
type Control struct {
	Database string
	Owner    string // OwnerSource or Database
	Term     int64
	Epoch    int64
	Shards   []int
	Held     bool  // fast mode: ticks wait
	Plan     int64 // of the backfill
}

// Ownership is the source's word on one database's shards.
type Ownership struct {
	Database string
	Shards   []int
	Owner    string
	Epoch    int64
	Term     int64
}

const controlColumns = `SELECT database, owner, term, epoch, shards, held, plan FROM shardctl.control WHERE migration = $1`

// LoadControl reads a database's control row to show it, not to act on it.
func LoadControl(ctx context.Context, q postgres.Querier, migration string) (Control, error) {
	return scanControl(q.QueryRow(ctx, controlColumns, migration), migration)
}

// ShareControl locks a database's control row against change until the
// transaction ends, and reads it.
func ShareControl(ctx context.Context, tx postgres.Querier, migration string) (Control, error) {
	if err := advisory(ctx, tx, "pg_advisory_xact_lock_shared", "control", migration, ""); err != nil {
		return Control{}, err
	}
	return scanControl(tx.QueryRow(ctx, controlColumns+" FOR SHARE", migration), migration)
}

// ChangeControl locks a database's control row alone, and reads it. The wait is
// bounded by the caller's statement_timeout: lock_timeout starts again with each lock.
func ChangeControl(ctx context.Context, tx postgres.Querier, migration string) (Control, error) {
	if err := advisory(ctx, tx, "pg_advisory_xact_lock", "control", migration, ""); err != nil {
		return Control{}, err
	}
	return scanControl(tx.QueryRow(ctx, controlColumns+" FOR UPDATE", migration), migration)
}

func scanControl(row pgx.Row, migration string) (Control, error) {
	var c Control
	err := row.Scan(&c.Database, &c.Owner, &c.Term, &c.Epoch, &c.Shards, &c.Held, &c.Plan)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, fmt.Errorf("control row of %s: %w", migration, ErrNotFound)
	}
	if err != nil {
		return c, fmt.Errorf("control row of %s: %w", migration, err)
	}
	return c, nil
}

// SaveControl writes a database's control row; the caller holds ChangeControl's
// lock or makes the row.
func SaveControl(ctx context.Context, tx postgres.Querier, migration string, c Control) error {
	const sql = `INSERT INTO shardctl.control (migration, database, term, owner, epoch, shards, held, plan) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
	ON CONFLICT (migration) DO UPDATE SET term = excluded.term, owner = excluded.owner, epoch = excluded.epoch, shards = excluded.shards, held = excluded.held, plan = excluded.plan`
	if _, err := tx.Exec(ctx, sql, migration, c.Database, c.Term, c.Owner, c.Epoch, shardList(c.Shards), c.Held, c.Plan); err != nil {
		return fmt.Errorf("write control row of %s: %w", migration, err)
	}
	return nil
}

const ownershipColumns = `SELECT database, shards, owner, epoch, term FROM shardctl.ownership WHERE migration = $1`

// LoadOwnership reads all rows of a migration, to show them.
func LoadOwnership(ctx context.Context, q postgres.Querier, migration string) ([]Ownership, error) {
	rows, err := q.Query(ctx, ownershipColumns+" ORDER BY database", migration)
	if err != nil {
		return nil, fmt.Errorf("read ownership of %s: %w", migration, err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Ownership, error) { return scanOwnership(r) })
	if err != nil {
		return nil, fmt.Errorf("read ownership of %s: %w", migration, err)
	}
	return out, nil
}

// ShareOwnership locks the source's row of one database against change, and reads it.
func ShareOwnership(ctx context.Context, tx postgres.Querier, migration, database string) (Ownership, error) {
	return lockOwnership(ctx, tx, "pg_advisory_xact_lock_shared", " FOR SHARE", migration, database)
}

// ChangeOwnership locks the source's row of one database alone, and reads it.
// Several databases are locked in the order of their names.
func ChangeOwnership(ctx context.Context, tx postgres.Querier, migration, database string) (Ownership, error) {
	return lockOwnership(ctx, tx, "pg_advisory_xact_lock", " FOR UPDATE", migration, database)
}

func lockOwnership(ctx context.Context, tx postgres.Querier, lock, row, migration, database string) (Ownership, error) {
	if err := advisory(ctx, tx, lock, "ownership", migration, database); err != nil {
		return Ownership{}, err
	}
	o, err := scanOwnership(tx.QueryRow(ctx, ownershipColumns+" AND database = $2"+row, migration, database))
	if errors.Is(err, pgx.ErrNoRows) {
		return o, fmt.Errorf("ownership of %s by %s: %w", migration, database, ErrNotFound)
	}
	if err != nil {
		return o, fmt.Errorf("ownership of %s by %s: %w", migration, database, err)
	}
	return o, nil
}

func scanOwnership(row pgx.Row) (o Ownership, err error) {
	err = row.Scan(&o.Database, &o.Shards, &o.Owner, &o.Epoch, &o.Term)
	return o, err
}

// SaveOwnership writes one row, on the source or as a database's copy.
func SaveOwnership(ctx context.Context, tx postgres.Querier, migration string, o Ownership) error {
	const sql = `INSERT INTO shardctl.ownership (migration, database, shards, owner, epoch, term) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (migration, database) DO UPDATE SET shards = excluded.shards, owner = excluded.owner, epoch = excluded.epoch, term = excluded.term`
	if _, err := tx.Exec(ctx, sql, migration, o.Database, shardList(o.Shards), o.Owner, o.Epoch, o.Term); err != nil {
		return fmt.Errorf("write ownership of %s by %s: %w", migration, o.Database, err)
	}
	return nil
}

// CopyOwnership writes a database's copy of one row, unless it has a later one.
func CopyOwnership(ctx context.Context, q postgres.Querier, migration string, o Ownership) error {
	const sql = `INSERT INTO shardctl.ownership AS known (migration, database, shards, owner, epoch, term) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (migration, database) DO UPDATE SET shards = excluded.shards, owner = excluded.owner, epoch = excluded.epoch, term = excluded.term
	WHERE known.epoch <= excluded.epoch`
	if _, err := q.Exec(ctx, sql, migration, o.Database, shardList(o.Shards), o.Owner, o.Epoch, o.Term); err != nil {
		return fmt.Errorf("copy ownership of %s by %s: %w", migration, o.Database, err)
	}
	return nil
}

// shardList never is nil: the column is NOT NULL.
func shardList(shards []int) []int {
	if shards == nil {
		return []int{}
	}
	return shards
}

// LockTableShared is a chunk's hold on a table of this database: ticks wait.
func LockTableShared(ctx context.Context, tx postgres.Querier, migration string, tableNo int) error {
	return advisory(ctx, tx, "pg_advisory_xact_lock_shared", "table", migration, fmt.Sprint(tableNo))
}

// LockTableExclusive is a tick's hold on a table of this database: chunks wait.
// Several tables are locked in the order of their numbers.
func LockTableExclusive(ctx context.Context, tx postgres.Querier, migration string, tableNo int) error {
	return advisory(ctx, tx, "pg_advisory_xact_lock", "table", migration, fmt.Sprint(tableNo))
}

// advisory takes a transaction's advisory lock on a name of this migration.
// Source and databases may be one server: the names are apart by kind, and
// advisory locks are per database anyway.
func advisory(ctx context.Context, tx postgres.Querier, lock, kind, migration, name string) error {
	_, err := tx.Exec(ctx, "SELECT "+lock+"(hashtextextended($1, 0))", lockName(kind, migration, name))
	if err != nil {
		return fmt.Errorf("lock %s %s %s: %w", kind, migration, name, err)
	}
	return nil
}

func lockName(kind, migration, name string) string {
	return "shardctl " + kind + " " + migration + " " + name
}
