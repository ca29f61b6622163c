package auditlog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// retryKeys bounds how many quarantined keys one tick tries again, and retryPlaces
// how many of them times the places where each may have been: their old places are not
// known, so each is deleted wherever it is not. The rest has its turn with the next ticks.
const (
	retryKeys   = 500
	retryPlaces = 5000
)

// The reasons for which an entry is kept in quarantine.
const (
	reasonNoKey      = "no shard key"        // refused by the spec's null_keys or orphans
	reasonUnique     = "unique"              // another row has a value that must be unique
	reasonForeignKey = "foreign key"         // refers to a row that is not there
	reasonReferenced = "still referenced"    // rows of the database refer to it
	reasonRejected   = "rejected"            // a check, a domain, a trigger or a value's type
	reasonForeign    = "not this database's" // the source's row of that key belongs elsewhere
)

// ward is the quarantine of one database and direction, in the session that
// writes its side.
type ward struct {
	migration string
	database  string
	direction store.Direction
}

// condition selects the ward's rows of shardctl.quarantine, aliased q.
func (w ward) condition() string {
	return fmt.Sprintf("q.migration = %s AND q.database = %s AND q.direction = '%s'",
		postgres.Literal(w.migration), postgres.Literal(w.database), w.direction)
}

// park is the statement that keeps staged rows in quarantine.
func (w ward) park(s *stage, where, reason, message string) string {
	return fmt.Sprintf(`INSERT INTO shardctl.quarantine AS q (migration, database, direction, table_no, key, reason, first_error, last_error)
SELECT DISTINCT %s, %s, '%s', %d, %s, %s, %s, %[7]s FROM %[8]s s WHERE %[9]s
ON CONFLICT (migration, database, direction, table_no, key) DO UPDATE SET reason = excluded.reason, last_error = excluded.last_error, tries = q.tries + 1`,
		postgres.Literal(w.migration), postgres.Literal(w.database), w.direction, s.table.No, s.keyJSON(),
		postgres.Literal(reason), postgres.Literal(message), s.name, where)
}

// skip is the statement that leaves keys in quarantine out of a batch: they have
// ticks of their own, so that one bad row does not slow all others down.
func (w ward) skip(s *stage) string {
	// The subquery cannot be turned into a join, which would be one the wrong way round.
	return fmt.Sprintf("DELETE FROM %s s WHERE EXISTS (SELECT FROM shardctl.quarantine q WHERE %s AND q.table_no = %d AND q.key = %s OFFSET 0)",
		s.name, w.condition(), s.table.No, s.keyJSON())
}

// parked is one key in quarantine.
type parked struct {
	table int
	key   string // JSON array of texts
	tries int
}

// due gives the keys to try again, those that were tried least first.
func (w ward) due(ctx context.Context, q postgres.Querier, places int) ([]parked, error) {
	limit := min(retryKeys, max(retryPlaces/max(places, 1), 1))
	sql := fmt.Sprintf("SELECT q.table_no, q.key::text, q.tries FROM shardctl.quarantine q WHERE %s ORDER BY q.tries, q.since LIMIT %d", w.condition(), limit)
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read quarantine of %s: %w", w.database, err)
	}
	keys, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (k parked, err error) {
		err = r.Scan(&k.table, &k.key, &k.tries)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read quarantine of %s: %w", w.database, err)
	}
	return keys, nil
}

// release lets keys go that were tried and did not come back.
func (w ward) release(ctx context.Context, tx pgx.Tx, keys []parked) error {
	var tables, tries []int
	var texts []string
	for _, k := range keys {
		tables, tries, texts = append(tables, k.table), append(tries, k.tries), append(texts, k.key)
	}
	// Looked up one by one: an applier's session plans no hash join.
	sql := fmt.Sprintf(`DELETE FROM shardctl.quarantine WHERE ctid = ANY (ARRAY(SELECT (SELECT q.ctid FROM shardctl.quarantine q
WHERE %s AND q.table_no = r.table_no AND q.key = r.key::jsonb AND q.tries = r.tries OFFSET 0) FROM unnest($1::int[], $2::text[], $3::int[]) r(table_no, key, tries)))`, w.condition())
	if _, err := tx.Exec(ctx, sql, tables, texts, tries); err != nil {
		return fmt.Errorf("release from quarantine of %s: %w", w.database, err)
	}
	return nil
}

// count is how many keys are in quarantine.
func (w ward) count(ctx context.Context, q postgres.Querier) (int64, error) {
	var n int64
	if err := q.QueryRow(ctx, "SELECT count(*) FROM shardctl.quarantine q WHERE "+w.condition()).Scan(&n); err != nil {
		return 0, fmt.Errorf("count quarantine of %s: %w", w.database, err)
	}
	return n, nil
}

// reasonOf words a server's refusal of a row.
func reasonOf(err error) string {
	switch {
	case clashes(err):
		return reasonUnique
	case postgres.SQLState(err) == "23503":
		return reasonForeignKey
	}
	return reasonRejected
}

// byTable sorts keys to the batches of their tables.
func byTable(keys []parked) map[int][]string {
	out := map[int][]string{}
	for _, k := range keys {
		out[k.table] = append(out[k.table], k.key)
	}
	return out
}

// Parked is one key that could not be applied.
type Parked struct {
	Database  string
	Direction store.Direction
	Table     string
	Key       string // JSON array of the key's texts
	Reason    string
	Error     string // the last one
}

// String names the key in a message.
func (p Parked) String() string {
	return fmt.Sprintf("%s of %s (%s: %s)", p.Key, p.Table, p.Reason, strings.TrimSpace(p.Error))
}

// ReadQuarantine lists keys in quarantine on the side that is written, at most
// limit.
func (a *Applier) ReadQuarantine(ctx context.Context, q postgres.Querier, database string, d store.Direction, limit int) ([]Parked, error) {
	w := ward{a.migration(), database, d}
	sql := fmt.Sprintf("SELECT q.table_no, q.key::text, q.reason, q.last_error FROM shardctl.quarantine q WHERE %s ORDER BY q.since LIMIT %d", w.condition(), limit)
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read quarantine of %s: %w", database, err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (Parked, error) {
		p := Parked{Database: database, Direction: d}
		var table int
		err := r.Scan(&table, &p.Key, &p.Reason, &p.Error)
		if err == nil && table >= 1 && table <= len(a.plan.tables) {
			p.Table = a.plan.tables[table-1].Name()
		}
		return p, err
	})
}
