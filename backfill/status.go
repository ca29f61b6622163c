package backfill

import (
	"context"
	_ "embed" // the query
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed status.sql
var statusSQL string

// Status is where a backfill stands, as `status` prints it.
type Status struct {
	Percent       float64       `json:"percent"` // by bytes; 100 only once indexes are built
	RowsDone      int64         `json:"rows_done"`
	RowsEstimated int64         `json:"rows_estimated"`
	RowsPerSecond float64       `json:"rows_per_s"`  // of the last 30 s
	ETASeconds    *float64      `json:"eta_seconds"` // null: measuring, or nothing to measure
	Tables        []TableStatus `json:"tables"`
	Modes         []ModeStatus  `json:"modes"`
	Paused        bool          `json:"paused"`
}

// TableStatus is one table's part.
type TableStatus struct {
	Name        string `json:"name"`
	State       string `json:"state"` // waiting, copying, copied (indexes lack) or done
	ChunksDone  int    `json:"chunks_done"`
	ChunksTotal int    `json:"chunks_total"` // estimated until all are handed out
}

// ModeStatus is how one database is copied to.
type ModeStatus struct {
	Database string `json:"database"`
	Mode     Mode   `json:"mode"`
	Reason   string `json:"reason"`
	Finished bool   `json:"finished"`
}

// copyShare is how much of the whole the copy is; the rest is for indexes and
// constraints, whose progress no server tells beforehand.
const copyShare = 95.0

// measuringFor is how long chunks must have been done before an estimate is made
// of them.
const measuringFor = 3.0

// ReadStatus reads it from the source. Tables are those of the spec, in its order.
func ReadStatus(ctx context.Context, source postgres.Querier, spec *migrate.Spec) (Status, error) {
	s := Status{Tables: []TableStatus{}, Modes: []ModeStatus{}}
	m, err := store.LoadMigration(ctx, source, spec.Migration)
	if errors.Is(err, store.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := s.readModes(ctx, source, spec.Migration); err != nil {
		return s, fmt.Errorf("read the backfill's modes: %w", err)
	}
	past := s.allFinished() && (m.Phase == migrate.Backfilled || m.Phase == migrate.PartlyCutOver || m.Phase == migrate.CutOver ||
		m.Phase == migrate.RolledBack || m.Phase == migrate.Completed)
	if err := s.readTables(ctx, source, spec, past); err != nil {
		return s, fmt.Errorf("read the backfill's progress: %w", err)
	}
	return s, nil
}

// allFinished reports whether no database is being copied, for the first time or anew.
func (s *Status) allFinished() bool {
	return !slices.ContainsFunc(s.Modes, func(m ModeStatus) bool { return !m.Finished })
}

func (s *Status) readModes(ctx context.Context, source postgres.Querier, migration string) error {
	const paused = `SELECT EXISTS (SELECT FROM shardctl.backfill_control WHERE migration = $1 AND paused)`
	if err := source.QueryRow(ctx, paused, migration).Scan(&s.Paused); err != nil {
		return err
	}
	rows, err := source.Query(ctx, `SELECT database, mode, reason, finished_at IS NOT NULL FROM shardctl.backfill_mode WHERE migration = $1 ORDER BY database`, migration)
	if err != nil {
		return err
	}
	var d ModeStatus
	_, err = pgx.ForEachRow(rows, []any{&d.Database, &d.Mode, &d.Reason, &d.Finished}, func() error {
		s.Modes = append(s.Modes, d)
		return nil
	})
	return err
}

// tableProgress is a row of status.sql.
type tableProgress struct {
	no                     int
	bytes, estimated       int64
	doneBytes, rows        int64
	chunksDone, chunks     int
	copied                 bool
	recentRows, recentByte float64
	since                  *float64
}

func (s *Status) readTables(ctx context.Context, source postgres.Querier, spec *migrate.Spec, past bool) error {
	rows, err := source.Query(ctx, statusSQL, spec.Migration)
	if err != nil {
		return err
	}
	found := map[int]tableProgress{}
	var p tableProgress
	_, err = pgx.ForEachRow(rows, []any{&p.no, &p.bytes, &p.estimated, &p.doneBytes, &p.rows, &p.chunksDone, &p.chunks,
		&p.copied, &p.recentRows, &p.recentByte, &p.since}, func() error {
		found[p.no] = p
		return nil
	})
	if err != nil {
		return err
	}
	s.sum(spec, found, past)
	return nil
}

// sum adds the tables up.
func (s *Status) sum(spec *migrate.Spec, found map[int]tableProgress, past bool) {
	var bytes, done, byteRate, since float64
	allCopied := len(found) > 0
	for i, t := range spec.Tables {
		p := found[i+1]
		s.Tables = append(s.Tables, TableStatus{Name: t.Name.String(), State: p.state(past), ChunksDone: p.chunksDone, ChunksTotal: max(p.chunks, p.chunksDone)})
		s.RowsDone += p.rows
		s.RowsEstimated += max(p.estimated, p.rows)
		if p.copied {
			s.RowsEstimated += min(p.rows-p.estimated, 0) // known by now
		}
		// An empty table weighs as much as a page, so that it counts at all.
		bytes += max(float64(p.bytes), 8192)
		if p.copied {
			done += max(float64(p.bytes), 8192)
		} else {
			done += float64(p.doneBytes)
			allCopied = false
		}
		byteRate += p.recentByte
		s.RowsPerSecond += p.recentRows
		if p.since != nil {
			since = max(since, *p.since)
		}
	}
	s.Percent = copyShare * done / max(bytes, 1)
	s.rates(since, byteRate, bytes-done)
	switch {
	case past:
		s.Percent, s.ETASeconds = 100, new(float64)
	case allCopied:
		s.Percent, s.ETASeconds = copyShare, nil
	}
}

// rates turns what was done lately into rates, and an estimate once enough time
// has passed to make one.
func (s *Status) rates(since, byteRate, left float64) {
	if since <= 0 {
		s.RowsPerSecond = 0
		return
	}
	s.RowsPerSecond /= max(since, 1)
	if since >= measuringFor && byteRate > 0 {
		eta := left / (byteRate / since)
		s.ETASeconds = &eta
	}
}

func (p tableProgress) state(past bool) string {
	switch {
	case past:
		return "done"
	case p.copied && p.chunks > 0:
		return "copied"
	case p.chunksDone > 0 || p.rows > 0:
		return "copying"
	}
	return "waiting"
}
