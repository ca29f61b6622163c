package cutover

import (
	"context"
	"fmt"
	"math"
	"math/big"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// sequence is one sequence that a migrated table draws from.
type sequence struct {
	Schema, Name string
	Increment    int64 // the application's own
	Step         int64 // what one draw adds as it is now: Increment, or that of a lane
	Min, Max     int64 // what the sequence and the columns that draw from it can hold
	Cache        int64
	Last         int64
	Called       bool
}

// lane is one writer's share among several. The numbers are cut into blocks as long as
// the sequence's own increment, for one draw may stand for that many keys, and every
// of-th block is the lane's. Lane 0 is the source's.
type lane struct{ no, of int64 }

// first is the lane's first value at or past v, in the sequence's own direction. It
// keeps v's place in its block: an increment may be the share of a writer that we do
// not know.
func (l lane) first(v, increment int64) int64 {
	if increment < 0 {
		// Downwards: mirrored.
		return -l.first(-v, -increment)
	}
	block := v / increment
	if v%increment < 0 {
		block--
	}
	return v + ((l.no-block)%l.of+l.of)%l.of*increment
}

// holds reports whether a value is one of the lane's.
func (l lane) holds(v, increment int64) bool { return l.first(v, increment) == v }

// drawsSQL is what columns of the given tables draw from: identity and serial columns and
// nextval defaults, read from pg_depend, never from an expression's text.
const drawsSQL = `draws AS (
  SELECT d.objid AS seq, d.refobjid AS tab, d.refobjsubid AS col FROM pg_depend d
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY($1) AND d.deptype IN ('a', 'i')
  UNION SELECT d.refobjid, a.adrelid, a.adnum FROM pg_attrdef a JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid AND d.refclassid = 'pg_class'::regclass
  WHERE a.adrelid = ANY($1))`

// sequencesSQL lists the sequences that tables draw from. One may be wider than its
// column: before PostgreSQL 10 all were bigint.
const sequencesSQL = "WITH " + drawsSQL + `
SELECT n.nspname, c.relname, s.seqincrement,
  greatest(s.seqmin, max(CASE a.atttypid WHEN 'int2'::regtype THEN -32768 WHEN 'int4'::regtype THEN -2147483648 END)),
  least(s.seqmax, min(CASE a.atttypid WHEN 'int2'::regtype THEN 32767 WHEN 'int4'::regtype THEN 2147483647 END)), s.seqcache
FROM draws JOIN pg_sequence s ON s.seqrelid = seq JOIN pg_class c ON c.oid = seq JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = tab AND a.attnum = col
GROUP BY n.nspname, c.relname, s.seqincrement, s.seqmin, s.seqmax, s.seqcache ORDER BY 1, 2`

// loadSequences reads the sequences of the given tables, with their values.
func loadSequences(ctx context.Context, q postgres.Querier, tables []uint32) ([]sequence, error) {
	return readSequences(ctx, q, sequencesSQL, tables)
}

// readSequences runs a query like sequencesSQL and reads the values too.
func readSequences(ctx context.Context, q postgres.Querier, sql string, args ...any) ([]sequence, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read sequences: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s sequence, err error) {
		err = r.Scan(&s.Schema, &s.Name, &s.Step, &s.Min, &s.Max, &s.Cache)
		s.Increment = s.Step
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read sequences: %w", err)
	}
	return out, readValues(ctx, q, out)
}

func readValues(ctx context.Context, q postgres.Querier, sequences []sequence) error {
	batch := &pgx.Batch{}
	for i := range sequences {
		s := &sequences[i]
		batch.Queue("SELECT last_value, is_called FROM " + postgres.Table(s.Schema, s.Name)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&s.Last, &s.Called)
		})
	}
	return sendBatch(ctx, q, batch, "read sequence values")
}

// missing is the step of a sequence that is not there.
const missing = 0

// readSteps reads what each sequence steps by.
func readSteps(ctx context.Context, q postgres.Querier, sequences []sequence) error {
	batch := &pgx.Batch{}
	for i := range sequences {
		s := &sequences[i]
		batch.Queue("SELECT coalesce((SELECT seqincrement FROM pg_sequence WHERE seqrelid = to_regclass($1)), 0)", postgres.Table(s.Schema, s.Name)).
			QueryRow(func(row pgx.Row) error { return row.Scan(&s.Step) })
	}
	return sendBatch(ctx, q, batch, "read sequence steps")
}

func sendBatch(ctx context.Context, q postgres.Querier, batch *pgx.Batch, what string) error {
	if batch.Len() == 0 {
		return nil
	}
	sender, ok := q.(interface {
		SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
	})
	if !ok {
		return fmt.Errorf("%s: the session cannot pipeline", what)
	}
	if err := sender.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// start is the lane's first value that is past v by a margin: sessions may hold cached
// values that they have not used yet. It reports whether there is one within the bounds.
func (s sequence) start(l lane, v, maxConnections int64) (start int64, ok bool) {
	if s.Increment > math.MaxInt64/l.of || s.Increment < -math.MaxInt64/l.of {
		return 0, false // its step could not be told
	}
	past := big.NewInt(10 * maxConnections)
	past.Mul(past, big.NewInt(s.Cache)).Mul(past, big.NewInt(s.Increment)).Add(past, big.NewInt(v))
	if !past.IsInt64() {
		return 0, false
	}
	start = l.first(past.Int64(), s.Increment)
	// Past the end of its type the lane's value would have turned round.
	return start, start <= s.Max && start >= s.Min && !s.past(past.Int64(), start)
}

// laneStart is where a lane begins: past the value by the margin, inside the bounds.
func (s sequence) laneStart(l lane, maxConnections int64) (int64, error) {
	start, ok := s.start(l, s.Last, maxConnections)
	if !ok {
		return 0, migrate.Refuse("sequence.exhausted", s.Schema+"."+s.Name,
			fmt.Sprintf("a lane would begin outside its bounds %d to %d: it stands at %d and steps by %d", s.Min, s.Max, s.Last, s.Increment), "widen the sequence's and the column's type, or use sequences: keep")
	}
	return start, nil
}

// step is a lane's increment: past the blocks of all the others.
func (s sequence) step(l lane) int64 { return s.Increment * l.of }

// inLane reports whether the sequence steps and stands as the lane has it.
func (s sequence) inLane(l lane) bool { return s.Step == s.step(l) && l.holds(s.Last, s.Increment) }

// past reports whether a is further along than b in the sequence's direction.
func (s sequence) past(a, b int64) bool {
	if s.Increment < 0 {
		return a < b
	}
	return a > b
}
