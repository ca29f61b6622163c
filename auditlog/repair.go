package auditlog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// repairBatch bounds the arrays of one statement.
const repairBatch = 5000

// Reread is a key whose row is to be read again by the next tick.
type Reread struct {
	Key      []string // the primary key's values as text, in key order
	Location string   // in a database's log: the schema; "" in the source's
}

// AppendReread writes keys into this side's log as op R, in the caller's
// transaction: the next tick makes the other side equal for them, whatever it has.
// Database is the one concerned. Its owner is held until the transaction ends, and
// must be the side whose log this is: the owner's row wins.
func (s Side) AppendReread(ctx context.Context, tx pgx.Tx, t *layout.Table, database string, keys []Reread) error {
	if err := s.shareOwner(ctx, tx, t, database); err != nil {
		return err
	}
	// Whether this is still the active segment at commit does not matter: ticks read all.
	var active int
	const read = `SELECT coalesce((SELECT active FROM shardctl.segment WHERE migration = $1 AND table_no = $2), 0)`
	if err := tx.QueryRow(ctx, read, s.migration(), t.No).Scan(&active); err != nil {
		return fmt.Errorf("active segment of %s: %w", t.Name(), err)
	}
	for batch := range slices.Chunk(keys, repairBatch) {
		columns := make([][]string, len(t.PK)+1)
		for _, k := range batch {
			if len(k.Key) != len(t.PK) {
				return fmt.Errorf("re-read a key of %s: it has %d values, the primary key has %d columns", t.Name(), len(k.Key), len(t.PK))
			}
			columns[0] = append(columns[0], k.Location)
			for i, v := range k.Key {
				columns[i+1] = append(columns[i+1], v)
			}
		}
		args := make([]any, len(columns))
		for i := range columns {
			args[i] = columns[i]
		}
		if _, err := tx.Exec(ctx, s.rereadSQL(t, active), args...); err != nil {
			return fmt.Errorf("re-read keys of %s: %w", t.Name(), err)
		}
	}
	return nil
}

// rereadSQL inserts keys given as one array of texts a column, the location first.
func (s Side) rereadSQL(t *layout.Table, segment int) string {
	columns, values := []string{"op", "loc"}, []string{`'R'`, "nullif(u.loc, '')"}
	arrays, names := []string{"$1::text[]"}, []string{"loc"}
	for i, c := range t.PK {
		n := fmt.Sprintf("n%d", i+1)
		columns, values = append(columns, n), append(values, "u."+n+"::"+baseType(c))
		arrays, names = append(arrays, fmt.Sprintf("$%d::text[]", i+2)), append(names, n)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM unnest(%s) u(%s)", s.segment(t, segment),
		strings.Join(columns, ", "), strings.Join(values, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// shareOwner holds the owner of a database's shards, and refuses if the log of the
// other side is the one to write.
func (s Side) shareOwner(ctx context.Context, tx pgx.Tx, t *layout.Table, database string) error {
	var owner string
	if s.onSource() {
		o, err := store.ShareOwnership(ctx, tx, s.migration(), database)
		if err != nil {
			return err
		}
		owner = o.Owner
	} else {
		c, err := store.ShareControl(ctx, tx, s.migration())
		if err != nil {
			return err
		}
		owner = c.Owner
	}
	if owner != s.Name() && !(s.onSource() && t.Everywhere()) {
		return migrate.Refuse("repair.owner", t.Name(), fmt.Sprintf("the shards of %s belong to %s, the log on %s cannot repair them", database, owner, s.Name()),
			"run shardctl verify again")
	}
	return nil
}
