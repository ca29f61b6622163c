package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
)

// segmentSize is one segment of a log as it is now.
type segmentSize struct {
	table, segment int
	active         bool
	bytes, total   int64 // of the heap; with its index
}

type segmentSizes []segmentSize

// of gives a table's active segment and the other one.
func (sizes segmentSizes) of(table int) (active, spare segmentSize) {
	for _, s := range sizes {
		switch {
		case s.table != table:
		case s.active:
			active = s
		default:
			spare = s
		}
	}
	return active, spare
}

// readSegments measures all segments of a side's logs.
func (s Side) readSegments(ctx context.Context, q postgres.Querier) (segmentSizes, error) {
	var tables, segments []int32
	var names []string
	for _, t := range s.Tables() {
		for i, name := range s.segments(t) {
			tables, segments, names = append(tables, int32(t.No)), append(segments, int32(i)), append(names, name)
		}
	}
	const sql = `SELECT w.no, w.segment, w.segment = coalesce(g.active, 0), coalesce(pg_relation_size(to_regclass(w.name)), 0), coalesce(pg_total_relation_size(to_regclass(w.name)), 0)
	FROM unnest($1::int[], $2::int[], $3::text[]) w(no, segment, name) LEFT JOIN shardctl.segment g ON g.migration = $4 AND g.table_no = w.no`
	rows, err := q.Query(ctx, sql, tables, segments, names, s.migration())
	if err != nil {
		return nil, fmt.Errorf("measure the log on %s: %w", s.Name(), err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (z segmentSize, err error) {
		err = r.Scan(&z.table, &z.segment, &z.active, &z.bytes, &z.total)
		return z, err
	})
	if err != nil {
		return nil, fmt.Errorf("measure the log on %s: %w", s.Name(), err)
	}
	return out, nil
}

// LogSize is how much a side's log takes, against the spec's limits.
type LogSize struct {
	Bytes   int64
	Soft    bool // above the soft limit: the backfill should pause
	Stopped bool // above the hard limit: capture was stopped, with a gap
}

// LogBytes is the size of a side's log on disk.
func (s Side) LogBytes(ctx context.Context, q postgres.Querier) (int64, error) {
	sizes, err := s.readSegments(ctx, q)
	var bytes int64
	for _, z := range sizes {
		bytes += z.total
	}
	return bytes, err
}

// CheckSize measures a side's log, and stops capture above the hard limit: a full
// disk would stop the application. The gap is marked in the same transaction in
// which capture ends, so that no position can pass it unnoticed.
func (s Side) CheckSize(ctx context.Context, conn *pgx.Conn) (LogSize, error) {
	bytes, err := s.LogBytes(ctx, conn)
	if err != nil {
		return LogSize{}, err
	}
	limits := s.Layout.Spec.Capture
	size := LogSize{Bytes: bytes, Soft: limits.LogSoftLimit > 0 && bytes > limits.LogSoftLimit}
	if limits.LogHardLimit <= 0 || bytes <= limits.LogHardLimit {
		return size, nil
	}
	size.Stopped = true
	return size, s.stop(ctx, conn, fmt.Sprintf("the log reached %d bytes, its hard limit is %d", bytes, limits.LogHardLimit))
}

// stop replaces all capture functions by such as do nothing: it needs no lock on any
// table and counts at once.
func (s Side) stop(ctx context.Context, conn *pgx.Conn, reason string) error {
	err := postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var running []ddl.Statement
		for _, t := range s.Tables() {
			if _, err := s.lockSegment(ctx, tx, t); err != nil {
				return err
			}
			is, err := s.readLog(ctx, tx, t)
			if err != nil {
				return err
			}
			if !s.stopped(t, is) {
				running = append(running, s.stopDDL(t)...)
			}
		}
		if len(running) == 0 {
			return nil
		}
		for _, database := range s.readers() {
			if err := MarkGap(ctx, tx, s.migration(), Gap{Database: database, Direction: s.Direction(), Reason: reason}); err != nil {
				return err
			}
		}
		return ddl.Exec(ctx, tx, running)
	})
	if err != nil {
		return fmt.Errorf("stop capture on %s: %w", s.Name(), err)
	}
	return nil
}

// readers are the databases whose positions read this side's log.
func (s Side) readers() []string {
	if s.onSource() {
		return s.Layout.Spec.DatabaseNames()
	}
	return []string{s.Database}
}

// Backlog is how many entries lie beyond a position.
type Backlog struct {
	Entries int64
	AtLeast bool // counting stopped at the limit
}

// Backlog counts the log's entries beyond a position, up to a limit.
func (s Side) Backlog(ctx context.Context, q postgres.Querier, position string, limit int64) (Backlog, error) {
	after, err := parseSnapshot(position)
	if err != nil {
		return Backlog{}, err
	}
	condition := window{after: after}.condition()
	var parts []string
	for _, t := range s.Tables() {
		for segment := range logschema.Segments {
			parts = append(parts, fmt.Sprintf("SELECT FROM %s WHERE %s", s.segment(t, segment), condition))
		}
	}
	if len(parts) == 0 {
		return Backlog{}, nil
	}
	var b Backlog
	sql := fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d) beyond", strings.Join(parts, " UNION ALL "), limit)
	if err := q.QueryRow(ctx, sql).Scan(&b.Entries); err != nil {
		return b, fmt.Errorf("count the backlog on %s: %w", s.Name(), err)
	}
	b.AtLeast = b.Entries >= limit
	return b, nil
}

// refuseGap refuses to go on capturing while a gap of this side's log stands.
func (s Side) refuseGap(ctx context.Context, q postgres.Querier) error {
	gaps, err := LoadGaps(ctx, q, s.migration())
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if g.Direction == s.Direction() {
			return gapFailure(g.Database, g.Direction, g.Reason)
		}
	}
	return nil
}
