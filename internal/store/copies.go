package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Copy is what a database knows of the migration by itself.
type Copy struct {
	Control    Control
	Owners     []Ownership // as the last switch left them; none before the first
	SourceLost bool        // completed without the source, by the journal
}

// LoadCopy reads it, to show it or to go on without the source. ErrNotFound where the
// database has no state of the migration.
func LoadCopy(ctx context.Context, q postgres.Querier, migration string) (c Copy, err error) {
	var there bool
	if err := q.QueryRow(ctx, "SELECT to_regclass('shardctl.control') IS NOT NULL").Scan(&there); err != nil {
		return c, fmt.Errorf("look for schema shardctl: %w", err)
	}
	if !there {
		return c, fmt.Errorf("state of %s: %w", migration, ErrNotFound)
	}
	if c.Control, err = LoadControl(ctx, q, migration); err != nil {
		return c, err
	}
	if c.Owners, err = LoadOwnership(ctx, q, migration); err != nil {
		return c, err
	}
	const sql = `SELECT EXISTS (SELECT FROM shardctl.journal WHERE migration = $1 AND command = $2 AND outcome = 'ok')`
	if err := q.QueryRow(ctx, sql, migration, SourceLostCommand).Scan(&c.SourceLost); err != nil {
		return c, fmt.Errorf("read journal: %w", err)
	}
	return c, nil
}

// SourceLostCommand is the journal's name of a completion without the source.
const SourceLostCommand = "complete --source-lost"

// Newest joins the copies of several databases: of each database's shards the highest
// epoch that is found anywhere counts. In the order of the databases' names.
func Newest(copies map[string]Copy) []Ownership {
	newest := map[string]Ownership{}
	take := func(o Ownership) {
		if was, known := newest[o.Database]; !known || o.Epoch > was.Epoch {
			newest[o.Database] = o
		}
	}
	for _, c := range copies {
		take(Ownership{Database: c.Control.Database, Shards: c.Control.Shards, Owner: c.Control.Owner, Epoch: c.Control.Epoch, Term: c.Control.Term})
		for _, o := range c.Owners {
			take(o)
		}
	}
	out := make([]Ownership, 0, len(newest))
	for _, o := range newest {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Ownership) int { return strings.Compare(a.Database, b.Database) })
	return out
}

// LockWithoutSource keeps other operators away from a database while the source, which
// has the leases, is lost. The lock ends with the session. A *migrate.Failure with exit
// 5 if another session has it.
func LockWithoutSource(ctx context.Context, database *pgx.Conn, migration, name string) error {
	var got bool
	err := database.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", leaseName(migration, Operator)).Scan(&got)
	if err != nil {
		return fmt.Errorf("lock %s for an operator: %w", name, err)
	}
	if !got {
		return &migrate.Failure{Code: "lease.held", Object: name, Message: "another process completes without the source", Hint: "wait for it or stop it, then run the command again",
			Exit: migrate.ExitLeaseHeld, Err: errors.New("its session holds the lock")}
	}
	return nil
}
