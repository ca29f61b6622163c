package auditlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Faults words how a table's capture differs from what install makes, and how many
// relations it was looked for on. None: it stands.
func (s Side) Faults(ctx context.Context, q postgres.Querier, t *layout.Table) (faults []string, relations int, err error) {
	found, err := s.readRelations(ctx, q, t, s.roots(t))
	if err != nil {
		return nil, 0, err
	}
	for _, r := range found {
		faults = append(faults, triggerFault("row", r.row, quoted(r.name))...)
		if r.wantsTruncate() {
			faults = append(faults, triggerFault("truncate", r.truncate, quoted(r.name))...)
		}
	}
	is, err := s.readLog(ctx, q, t)
	if err != nil {
		return nil, 0, err
	}
	var active int
	const sql = `SELECT coalesce((SELECT active FROM shardctl.segment WHERE migration = $1 AND table_no = $2), 0)`
	if err := q.QueryRow(ctx, sql, s.migration(), t.No).Scan(&active); err != nil {
		return nil, 0, fmt.Errorf("active segment of %s: %w", t.Name(), err)
	}
	for _, missing := range ddl.Objects(s.segmentsMissing(t, is)) {
		faults = append(faults, missing.Name+" is missing")
	}
	if len(s.segmentsOutdated(t, is)) > 0 {
		faults = append(faults, "the log's columns do not fit the table's keys")
	}
	if len(s.functionsOutdated(t, is, active)) > 0 {
		faults = append(faults, "a capture function is missing or another one")
	}
	return faults, len(found), nil
}

func triggerFault(what, enabled, relation string) []string {
	switch enabled {
	case always:
		return nil
	case "":
		return []string{relation + " has no " + what + " trigger"}
	case "D":
		return []string{"the " + what + " trigger of " + relation + " is disabled"}
	}
	return []string{"the " + what + " trigger of " + relation + " does not fire always"}
}

// Stopped reports whether capture was stopped on this side at the log's hard limit.
func (s Side) Stopped(ctx context.Context, q postgres.Querier) (bool, error) {
	for _, t := range s.Tables() {
		is, err := s.readLog(ctx, q, t)
		if err != nil {
			return false, err
		}
		if s.stopped(t, is) {
			return true, nil
		}
	}
	return false, nil
}

// Resume lets capture that was stopped at the hard limit go on, in one transaction.
// While a gap of this log stands it is refused. What was written meanwhile is known to
// nobody: only a verification finds it.
func (s Side) Resume(ctx context.Context, conn *pgx.Conn) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		functions, tables, err := s.stoppedTables(ctx, tx)
		if err != nil || len(tables) == 0 {
			return err
		}
		if err := s.refuseGap(ctx, tx); err != nil {
			return err
		}
		return ddl.Exec(ctx, tx, functions)
	})
	if err != nil {
		return fmt.Errorf("resume capture on %s: %w", s.Name(), err)
	}
	return nil
}

// Reaches reads how far a database has been brought in a direction, and checks, for one
// who only looks, that the log still reaches back there. The error is the failure that
// catchup stops with: code gap, exit 4.
func Reaches(ctx context.Context, log, written postgres.Querier, migration, database string, d store.Direction) (store.Position, error) {
	var last store.Position
	for {
		p, err := store.LoadPosition(ctx, written, migration, database, d)
		if err != nil {
			return p, err
		}
		id, err := postgres.ReadIdentity(ctx, log)
		if err != nil {
			return p, err
		}
		err = checkLog(ctx, log, migration, database, d, p, id)
		// A catchup that goes on may have had the log rotated behind what was just read.
		if !IsGap(err) || p.Marker == last.Marker && p.Snapshot == last.Snapshot {
			return p, err
		}
		last = p
	}
}

// IsGap reports whether entries of a log are lost to a database: its copy starts over, or
// after a cutover its way back is closed.
func IsGap(err error) bool {
	var f *migrate.Failure
	return errors.As(err, &f) && f.Code == gapCode
}

// Quarantine lists the keys that are in quarantine on one side, of all databases and
// both directions, the oldest first, at most limit.
func Quarantine(ctx context.Context, q postgres.Querier, l *layout.Layout, limit int) ([]Parked, error) {
	const sql = `SELECT database, direction, table_no, key::text, reason, last_error FROM shardctl.quarantine WHERE migration = $1 ORDER BY since, table_no, key LIMIT $2`
	rows, err := q.Query(ctx, sql, l.Spec.Migration, limit)
	if err != nil {
		return nil, fmt.Errorf("read quarantine: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p Parked, err error) {
		var table int
		err = r.Scan(&p.Database, &p.Direction, &table, &p.Key, &p.Reason, &p.Error)
		if err == nil && table >= 1 && table <= len(l.Tables) {
			p.Table = l.Tables[table-1].Name()
		}
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read quarantine: %w", err)
	}
	return out, nil
}

// GiveUp takes a key out of quarantine as an agreed loss: it is not tried again until
// its row is written again. It reports whether the key was there.
func GiveUp(ctx context.Context, q postgres.Querier, l *layout.Layout, p Parked) (bool, error) {
	const sql = `DELETE FROM shardctl.quarantine WHERE migration = $1 AND database = $2 AND direction = $3 AND table_no = $4 AND key = $5::text::jsonb`
	for _, t := range l.Tables {
		if t.Name() != p.Table {
			continue
		}
		tag, err := q.Exec(ctx, sql, l.Spec.Migration, p.Database, p.Direction, t.No, p.Key)
		if err != nil {
			return false, fmt.Errorf("give up %s: %w", p, err)
		}
		return tag.RowsAffected() > 0, nil
	}
	return false, nil
}
