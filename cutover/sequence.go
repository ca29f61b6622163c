package cutover

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// sequence is one sequence that a migrated table draws from.
type sequence struct {
	Schema, Name string
	Increment    int64
	Min, Max     int64
	Cache        int64
	Last         int64
	Called       bool
}

// lane is the arithmetic of one writer among several: values congruent to the
// lane's residue, one step apart by the number of lanes. Lane 0 is the source's.
type lane struct{ no, of int64 }

// first is the lane's first value at or past v, in the sequence's own direction.
func (l lane) first(v, increment int64) int64 {
	step := l.of
	if increment < 0 {
		// Downwards: mirrored.
		return -lane{no: l.no, of: l.of}.first(-v, 1)
	}
	rest := ((v-l.no)%step + step) % step
	if rest == 0 {
		return v
	}
	return v + step - rest
}

// sequencesSQL lists what the migrated tables draw from: identity and serial
// columns and nextval defaults, read from pg_depend, never from an expression's text.
const sequencesSQL = `SELECT DISTINCT n.nspname, c.relname, s.seqincrement, s.seqmin, s.seqmax, s.seqcache
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY($1) AND d.deptype IN ('a', 'i'))
   OR EXISTS (SELECT FROM pg_depend d JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
              WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND a.adrelid = ANY($1))
ORDER BY 1, 2`

// loadSequences reads the sequences of the given tables, with their values.
func loadSequences(ctx context.Context, q postgres.Querier, tables []uint32) ([]sequence, error) {
	rows, err := q.Query(ctx, sequencesSQL, tables)
	if err != nil {
		return nil, fmt.Errorf("read sequences: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s sequence, err error) {
		err = r.Scan(&s.Schema, &s.Name, &s.Increment, &s.Min, &s.Max, &s.Cache)
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

// margin is how far past the source's value a lane begins: sessions may hold
// cached values that they have not used yet.
func (s sequence) margin(maxConnections int64) int64 { return 10 * s.Cache * maxConnections }

// beyond is a value further on by the margin.
func (s sequence) beyond(value, maxConnections int64) int64 {
	if s.Increment < 0 {
		return value - s.margin(maxConnections)
	}
	return value + s.margin(maxConnections)
}

// laneStart is where a lane begins: past the value by the margin, inside the bounds.
func (s sequence) laneStart(l lane, maxConnections int64) (int64, error) {
	start := l.first(s.beyond(s.Last, maxConnections), s.Increment)
	if start > s.Max || start < s.Min {
		return 0, migrate.Refuse("sequence.exhausted", s.Schema+"."+s.Name,
			fmt.Sprintf("a lane would begin at %d, outside its bounds %d to %d", start, s.Min, s.Max), "widen the sequence's and the column's type, or use sequences: keep")
	}
	return start, nil
}

// step is a lane's increment.
func (s sequence) step(l lane) int64 {
	if s.Increment < 0 {
		return -l.of
	}
	return l.of
}

// past reports whether a is further along than b in the sequence's direction.
func (s sequence) past(a, b int64) bool {
	if s.Increment < 0 {
		return a < b
	}
	return a > b
}
