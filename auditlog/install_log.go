package auditlog

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed install_log.sql
var logStateSQL string

// logState is what is there of one table's log.
type logState struct {
	columns map[string]map[string]string // of segments by name: column to type
	bodies  map[string]string            // of functions by name
}

func (s Side) readLog(ctx context.Context, q postgres.Querier, t *layout.Table) (logState, error) {
	m := s.migration()
	segments := make([]string, logschema.Segments)
	for i := range segments {
		segments[i] = logschema.Log(m, t.No, i)
	}
	var columns, bodies []byte
	err := q.QueryRow(ctx, logStateSQL, segments, []string{logschema.Capture(m, t.No), logschema.CaptureTruncate(m, t.No)}).Scan(&columns, &bodies)
	if err != nil {
		return logState{}, fmt.Errorf("look for the log of %s on %s: %w", t.Name(), s.Name(), err)
	}
	var out logState
	if err := json.Unmarshal(columns, &out.columns); err != nil {
		return logState{}, fmt.Errorf("look for the log of %s on %s: %w", t.Name(), s.Name(), err)
	}
	if err := json.Unmarshal(bodies, &out.bodies); err != nil {
		return logState{}, fmt.Errorf("look for the log of %s on %s: %w", t.Name(), s.Name(), err)
	}
	return out, nil
}

// segmentsMissing is the DDL for segments that are not there.
func (s Side) segmentsMissing(t *layout.Table, is logState) []ddl.Statement {
	var out []ddl.Statement
	for segment := range logschema.Segments {
		if is.columns[logschema.Log(s.migration(), t.No, segment)] == nil {
			out = append(out, s.segmentDDL(t, segment))
		}
	}
	return out
}

// segmentsOutdated is the DDL for columns of segments whose table changed since.
func (s Side) segmentsOutdated(t *layout.Table, is logState) []ddl.Statement {
	var out []ddl.Statement
	for segment := range logschema.Segments {
		columns := is.columns[logschema.Log(s.migration(), t.No, segment)]
		for _, c := range s.entryColumns(t) {
			has, there := columns[c.name]
			switch {
			case columns == nil || has == c.from.BaseType:
			case !there:
				out = append(out, ddl.Alter("ALTER TABLE %s ADD COLUMN %s %s", s.segment(t, segment), c.name, c.typeSQL()))
			default:
				out = append(out, ddl.Alter("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s::text::%s",
					s.segment(t, segment), c.name, c.typeSQL(), c.name, baseType(c.from)))
			}
		}
	}
	return out
}

// functionsOutdated is the DDL for functions that are missing or not as they must be
// to write into the active segment.
func (s Side) functionsOutdated(t *layout.Table, is logState, active int) []ddl.Statement {
	m := s.migration()
	if is.bodies[logschema.Capture(m, t.No)] == s.captureBody(t, active) && is.bodies[logschema.CaptureTruncate(m, t.No)] == s.truncateBody(t, active) {
		return nil
	}
	return s.functionsDDL(t, active)
}

// refuseReplaced refuses capture functions that are not as they were made, for either
// segment: a trigger that calls one may stand, and record nothing.
func (s Side) refuseReplaced(ctx context.Context, q postgres.Querier) error {
	for _, t := range s.Tables() {
		is, err := s.readLog(ctx, q, t)
		if err != nil {
			return err
		}
		stands := false
		for segment := range logschema.Segments {
			stands = stands || len(s.functionsOutdated(t, is, segment)) == 0
		}
		if !stands {
			return migrate.Refuse("capture.function", t.Name(), "a capture function on "+s.Name()+" is not the one that was made: writes would be lost",
				"shardctl doctor --acknowledge-ddl makes it anew")
		}
	}
	return nil
}

// stopped reports whether capture was stopped at the log's hard limit.
func (s Side) stopped(t *layout.Table, is logState) bool {
	return is.bodies[logschema.Capture(s.migration(), t.No)] == stoppedBody
}

func (s Side) object(kind, name, undo string) store.Object {
	return store.Object{Migration: s.migration(), Place: s.Name(), Kind: kind, Name: name, Undo: undo}
}

// ensureLog makes what lacks of a table's log: no lock on the table is needed. It
// reports whether anything did. A log that was stopped stays so while its gap stands.
func (in *installer) ensureLog(ctx context.Context, t *layout.Table) (bool, error) {
	var lacking []ddl.Statement
	err := postgres.WithTx(ctx, in.conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		active, err := in.side.lockSegment(ctx, tx, t)
		if err != nil {
			return err
		}
		is, err := in.side.readLog(ctx, tx, t)
		if err != nil {
			return err
		}
		if in.side.stopped(t, is) {
			if err := in.side.refuseGap(ctx, tx); err != nil {
				return err
			}
		}
		outdated := in.side.segmentsOutdated(t, is)
		lacking = append(append(in.side.segmentsMissing(t, is), outdated...), in.side.functionsOutdated(t, is, active)...)
		if len(lacking) == 0 {
			return nil
		}
		if err := in.register(ctx, tx, lacking); err != nil {
			return err
		}
		if len(outdated) > 0 {
			if err := postgres.UpgradeLock(ctx, tx, "ACCESS EXCLUSIVE", in.side.segments(t), time.Now().Add(in.lockWait)); err != nil {
				return err
			}
		}
		return ddl.Exec(ctx, tx, lacking)
	})
	if err != nil {
		return false, fmt.Errorf("make the log of %s on %s: %w", t.Name(), in.side.Name(), err)
	}
	return len(lacking) > 0, nil
}

// lockSegment gives the active segment of a table, and keeps it the active one until
// the transaction ends.
func (s Side) lockSegment(ctx context.Context, tx postgres.Querier, t *layout.Table) (int, error) {
	const make = `INSERT INTO shardctl.segment (migration, table_no) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	if _, err := tx.Exec(ctx, make, s.migration(), t.No); err != nil {
		return 0, fmt.Errorf("active segment of %s: %w", t.Name(), err)
	}
	var active int
	const read = `SELECT active FROM shardctl.segment WHERE migration = $1 AND table_no = $2 FOR UPDATE`
	if err := tx.QueryRow(ctx, read, s.migration(), t.No).Scan(&active); err != nil {
		return 0, fmt.Errorf("active segment of %s: %w", t.Name(), err)
	}
	return active, nil
}
