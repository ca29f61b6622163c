package auditlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// DefaultSegment is the size from which an active segment is switched: small enough
// that what is kept is a fraction of the log's limits, large enough that a busy
// table switches every few minutes.
const DefaultSegment = 64 << 20

// retireWait bounds the wait for the lock on a retired segment. Ticks queue behind it.
const retireWait = "100ms"

// Rotated is what a rotation did, by table numbers.
type Rotated struct {
	Retired  []int // emptied
	Switched []int // write into the other segment from now on
}

// Rotate empties retired segments whose entries every position covers, and switches
// tables whose active segment is larger than limit to an empty one. Positions are
// all those, durable, that read this side's log; without any nothing is emptied. A
// segment that is in use is left for the next time.
func (s Side) Rotate(ctx context.Context, conn *pgx.Conn, positions []string, limit int64) (Rotated, error) {
	var out Rotated
	sizes, err := s.readSegments(ctx, conn)
	if err != nil {
		return out, err
	}
	mark, err := meet(positions)
	if err != nil {
		return out, err
	}
	for _, t := range s.Tables() {
		active, spare := sizes.of(t.No)
		empty := spare.bytes == 0
		if !empty && len(positions) > 0 {
			if empty, err = s.retire(ctx, conn, t, spare.segment, mark); err != nil {
				return out, fmt.Errorf("retire segment %d of %s's log on %s: %w", spare.segment, t.Name(), s.Name(), err)
			}
			if empty {
				out.Retired = append(out.Retired, t.No)
			}
		}
		if empty && active.bytes > limit {
			if err := s.switchTo(ctx, conn, t, spare.segment); err != nil {
				return out, fmt.Errorf("switch %s's log on %s to segment %d: %w", t.Name(), s.Name(), spare.segment, err)
			}
			out.Switched = append(out.Switched, t.No)
		}
	}
	return out, nil
}

// meet is the newest snapshot that covers nothing but what all positions cover.
func meet(positions []string) (snapshot, error) {
	var out snapshot
	for i, text := range positions {
		p, err := parseSnapshot(text)
		if err != nil {
			return out, err
		}
		if i == 0 || p.xmax < out.xmax {
			out.xmax = p.xmax
		}
		out.xip = append(out.xip, p.xip...)
	}
	slices.Sort(out.xip)
	out.xip = slices.DeleteFunc(slices.Compact(out.xip), func(xid uint64) bool { return xid >= out.xmax })
	out.xmin = out.xmax
	if len(out.xip) > 0 {
		out.xmin = out.xip[0]
	}
	return out, nil
}

// errInUse ends a retirement that has to wait.
var errInUse = errors.New("the segment is in use")

// retire empties a segment if nothing in it lies beyond mark. The look comes after
// the lock, in a statement of its own: whoever wrote into the segment has ended by
// then and is seen. It reports whether the segment was emptied.
func (s Side) retire(ctx context.Context, conn *pgx.Conn, t *layout.Table, segment int, mark snapshot) (bool, error) {
	// A first look without the lock spares ticks the wait behind a lock for nothing.
	if uncovered, err := s.uncovered(ctx, conn, t, segment, mark); err != nil || uncovered {
		return false, err
	}
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+retireWait+"'"); err != nil {
			return err
		}
		active, err := s.lockSegment(ctx, tx, t)
		if err != nil {
			return err
		}
		if active == segment {
			return errInUse
		}
		name := s.segment(t, segment)
		if _, err := tx.Exec(ctx, "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		uncovered, err := s.uncovered(ctx, tx, t, segment, mark)
		if err != nil {
			return err
		}
		if uncovered {
			return errInUse
		}
		const sql = `INSERT INTO shardctl.low_water (migration, table_no, segment, snapshot) VALUES ($1, $2, $3, $4::text::pg_snapshot)
		ON CONFLICT (migration, table_no, segment) DO UPDATE SET snapshot = excluded.snapshot, at = clock_timestamp()`
		if _, err := tx.Exec(ctx, sql, s.migration(), t.No, segment, mark.String()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "TRUNCATE "+name)
		return err
	})
	if errors.Is(err, errInUse) || postgres.SQLState(err) == "55P03" {
		return false, nil
	}
	return err == nil, err
}

// uncovered reports whether a segment holds an entry beyond mark.
func (s Side) uncovered(ctx context.Context, q postgres.Querier, t *layout.Table, segment int, mark snapshot) (bool, error) {
	var there bool
	sql := fmt.Sprintf("SELECT EXISTS (SELECT FROM %s WHERE %s)", s.segment(t, segment), window{after: mark}.condition())
	err := q.QueryRow(ctx, sql).Scan(&there)
	return there, err
}

// switchTo makes a table's functions write into another segment. It locks no table
// of the user's. Transactions that are older may still write into the old one.
func (s Side) switchTo(ctx context.Context, conn *pgx.Conn, t *layout.Table, segment int) error {
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		active, err := s.lockSegment(ctx, tx, t)
		if err != nil || active == segment {
			return err
		}
		is, err := s.readLog(ctx, tx, t)
		if err != nil || s.stopped(t, is) {
			return err
		}
		const sql = `UPDATE shardctl.segment SET active = $3, switched_at = clock_timestamp() WHERE migration = $1 AND table_no = $2`
		if _, err := tx.Exec(ctx, sql, s.migration(), t.No, segment); err != nil {
			return err
		}
		return ddl.Exec(ctx, tx, s.functionsDDL(t, segment))
	})
}
