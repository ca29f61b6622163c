package auditlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// survey is a look at what the logs hold beyond a position.
type survey struct {
	tables map[int]bool // by number: those with entries
	cut    uint64       // the xid at which the batch is to be cut; 0: all fits
}

func (s survey) empty() bool { return len(s.tables) == 0 }

// surveyor looks at the logs of one side. Its SQL never changes, so that the
// server plans it once a session.
type surveyor struct {
	tables  []*tablePlan
	sql     string // counts what is new
	tsql    string // finds truncates
	backlog string // counts what is beyond a cut

	// The truncates that were committed between two snapshots, so that a long backlog
	// is searched for them once and not with each batch.
	from, to  snapshot
	truncated []uint64 // xids
}

func newSurveyor(p *plan, tables []*tablePlan) *surveyor {
	s := &surveyor{tables: tables}
	var parts, truncates, backlog []string
	for _, t := range tables {
		for _, log := range p.logs(t.Table) {
			parts = append(parts, surveyPart(t.Table, log))
			truncates = append(truncates, fmt.Sprintf(`SELECT xid::text::bigint FROM %s WHERE op = 'T' AND (xid >= $1::text::xid8 OR xid = ANY ($2::text[]::xid8[]))`, log))
			backlog = append(backlog, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s WHERE xid >= $1::text::xid8 LIMIT $2) e", log))
		}
	}
	s.sql, s.tsql, s.backlog = strings.Join(parts, "\nUNION ALL "), strings.Join(truncates, "\nUNION ALL "), strings.Join(backlog, "\nUNION ALL ")
	return s
}

// surveyPart counts one segment's entries up to a limit ($3) and gives the xid
// that follows as many, and the first.
func surveyPart(t *layout.Table, log string) string {
	return fmt.Sprintf(`SELECT %d, s.n, coalesce(s.xids[1], 0), coalesce(s.xids[$3], 0) FROM (SELECT count(*) AS n, array_agg(x ORDER BY x) AS xids FROM (
  SELECT xid::text::bigint AS x FROM ((SELECT xid FROM %[2]s WHERE xid = ANY ($2::text[]::xid8[]) ORDER BY xid LIMIT $3)
    UNION ALL (SELECT xid FROM %[2]s WHERE xid >= $1::text::xid8 ORDER BY xid LIMIT $3)) e ORDER BY x LIMIT $3) f) s WHERE s.n > 0`, t.No, log)
}

// look surveys the logs beyond a position. A segment with more than limit entries
// asks for a cut, at an xid so that each segment gives about as many.
func (s *surveyor) look(ctx context.Context, q postgres.Querier, after snapshot, limit int) (survey, error) {
	out := survey{tables: map[int]bool{}}
	if len(s.tables) == 0 {
		return out, nil
	}
	rows, err := q.Query(ctx, s.sql, fmt.Sprint(after.xmax), xidTexts(after.xip), limit+1)
	if err != nil {
		return out, fmt.Errorf("survey the logs: %w", err)
	}
	var table int
	var n, first, next int64
	var lowest uint64
	_, err = pgx.ForEachRow(rows, []any{&table, &n, &first, &next}, func() error {
		out.tables[table] = true
		if lowest == 0 || uint64(first) < lowest {
			lowest = uint64(first)
		}
		if next > 0 && (out.cut == 0 || uint64(next) < out.cut) {
			out.cut = uint64(next)
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("survey the logs: %w", err)
	}
	if out.cut > 0 && out.cut <= lowest {
		out.cut = lowest + 1 // one transaction alone is larger than a batch
	}
	return out, nil
}

// pastTruncates moves a cut behind every TRUNCATE that is waiting. A truncate
// deletes all that its batch does not name, so no batch before it may hold entries
// that were made after it.
func (s *surveyor) pastTruncates(ctx context.Context, q postgres.Querier, after, now snapshot, cut uint64) (uint64, error) {
	if s.to.xmax == 0 || !after.includes(s.from) {
		s.from, s.to, s.truncated = after, after, nil
	}
	rows, err := q.Query(ctx, s.tsql, fmt.Sprint(s.to.xmax), xidTexts(s.to.xip))
	if err != nil {
		return 0, fmt.Errorf("look for truncates in the logs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("look for truncates in the logs: %w", err)
	}
	s.to = now
	for _, xid := range found {
		s.truncated = append(s.truncated, uint64(xid))
	}
	for _, xid := range s.truncated {
		if !after.covers(xid) {
			cut = max(cut, xid+1)
		}
	}
	return cut, nil
}

// backlogLimit bounds how far a backlog is counted, for each segment.
const backlogLimit = 100_000

// beyond counts the entries from an xid on, up to a limit.
func (s *surveyor) beyond(ctx context.Context, q postgres.Querier, cut uint64) (n int64, err error) {
	if err := q.QueryRow(ctx, "SELECT sum(n)::bigint FROM ("+s.backlog+") b(n)", fmt.Sprint(cut), backlogLimit).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the backlog: %w", err)
	}
	return n, nil
}

// census counts a batch's entries by kind.
type census struct {
	entries   int64
	left      map[int]bool // tables, by number, with entries after which children are read again
	truncates []truncate
	probes    map[uint64]int // by xid: in the logs of how many tables
}

// truncate is one TRUNCATE in a batch.
type truncate struct {
	table int
	loc   string // as the log has it: a leaf on the source, a schema on a database
}

// count takes the census of a batch.
func (s *surveyor) count(ctx context.Context, q postgres.Querier, p *plan, look survey, condition string) (census, error) {
	c := census{left: map[int]bool{}, probes: map[uint64]int{}}
	var parts []string
	for _, t := range s.tables {
		if !look.tables[t.No] {
			continue
		}
		for _, log := range p.logs(t.Table) {
			parts = append(parts, censusPart(t, log, condition))
		}
	}
	if len(parts) == 0 {
		return c, nil
	}
	rows, err := q.Query(ctx, strings.Join(parts, "\nUNION ALL "), pgx.QueryExecModeExec)
	if err != nil {
		return c, fmt.Errorf("count the batch: %w", err)
	}
	var table int
	var kind, what string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&table, &kind, &what, &n}, func() error {
		c.entries += n
		switch kind {
		case "L":
			c.left[table] = true
		case "T":
			c.truncates = append(c.truncates, truncate{table: table, loc: what})
		case "P":
			var xid uint64
			if _, err := fmt.Sscan(what, &xid); err != nil {
				return err
			}
			c.probes[xid]++
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count the batch: %w", err)
	}
	return c, nil
}

// censusPart counts one segment's part of a batch.
func censusPart(t *tablePlan, log, condition string) string {
	left := "''"
	if len(t.Children) > 0 && t.keyed {
		left = "CASE WHEN op IN ('I', 'D') OR op = 'U' AND (" + moved(t) + ") THEN 'L' ELSE '' END"
	}
	return fmt.Sprintf(`SELECT %d, CASE WHEN op IN ('T', 'P') THEN op::text ELSE %s END AS kind,
  CASE WHEN op = 'T' THEN coalesce(loc::text, '') WHEN op = 'P' THEN xid::text ELSE '' END AS what, count(*)
FROM %s WHERE %s GROUP BY 2, 3`, t.No, left, log, condition)
}

// present is the moment of a tick.
type present struct {
	now snapshot
	at  time.Time // by this process's clock, just before the snapshot
}

// readPresent gives the snapshot of a transaction.
func readPresent(ctx context.Context, q postgres.Querier) (present, error) {
	p := present{at: time.Now()}
	var text string
	if err := q.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
		return p, fmt.Errorf("read the snapshot: %w", err)
	}
	var err error
	p.now, err = parseSnapshot(text)
	return p, err
}

// checkLog makes sure that the log still reaches back to a position.
func checkLog(ctx context.Context, q postgres.Querier, migration, database string, d store.Direction, pos store.Position, id postgres.Identity) error {
	reason, err := lost(ctx, q, migration, database, d, pos, id)
	if err != nil || reason == "" {
		return err
	}
	return gapFailure(database, d, reason)
}

// lost says why a log does not reach back to a position: it is another server's, the
// position's marker is not there, something beyond it was truncated, or a gap is
// declared. "" if it does.
func lost(ctx context.Context, q postgres.Querier, migration, database string, d store.Direction, pos store.Position, id postgres.Identity) (reason string, err error) {
	if id.SystemIdentifier != pos.SystemIdentifier {
		return fmt.Sprintf("the log belongs to server %s, the position to %s", id.SystemIdentifier, pos.SystemIdentifier), nil
	}
	const sql = `SELECT (SELECT string_agg(DISTINCT snapshot::text, ' ') FROM shardctl.low_water WHERE migration = $1),
	(SELECT reason FROM shardctl.gap WHERE migration = $1 AND database = $2 AND direction = $3)`
	var marks, gap *string
	if err := q.QueryRow(ctx, sql, migration, database, d).Scan(&marks, &gap); err != nil {
		return "", fmt.Errorf("check the log of %s: %w", database, err)
	}
	if gap != nil {
		return *gap, nil
	}
	there, err := store.MarkerExists(ctx, q, pos.Marker, pos.Snapshot)
	if err != nil {
		return "", err
	}
	if !there {
		return "the server went back in time: it does not hold the marker of tick " + fmt.Sprint(pos.Tick), nil
	}
	if marks == nil {
		return "", nil
	}
	at, err := parseSnapshot(pos.Snapshot)
	if err != nil {
		return "", err
	}
	for _, text := range strings.Fields(*marks) {
		mark, err := parseSnapshot(text)
		if err != nil {
			return "", err
		}
		if !at.includes(mark) {
			return "a segment that reached " + text + " is truncated, the position is " + pos.Snapshot, nil
		}
	}
	return "", nil
}
