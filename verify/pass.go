package verify

import (
	"context"
	_ "embed" // the tables
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
)

//go:embed state.sql
var stateSQL string

// CreateState makes what lacks of verification's tables on the source. Idempotent;
// schema shardctl must be there.
func CreateState(ctx context.Context, q postgres.Querier) error {
	if _, err := q.Exec(ctx, stateSQL); err != nil {
		return fmt.Errorf("create verification's state: %w", err)
	}
	return nil
}

// Forget removes what is known of a migration's verification from the source.
func Forget(ctx context.Context, q postgres.Querier, migration string) error {
	if err := CreateState(ctx, q); err != nil {
		return err
	}
	for _, table := range []string{"verify_pass", "verify_pass_database", "verify_pass_table", "verify_difference", "verify_unsettled", "verify_round"} {
		if _, err := q.Exec(ctx, "DELETE FROM shardctl."+table+" WHERE migration = $1", migration); err != nil {
			return fmt.Errorf("forget %s in shardctl.%s: %w", migration, table, err)
		}
	}
	return nil
}

const (
	// beatEvery leaves room for missed beats before a pass counts as interrupted.
	beatEvery = 3 * time.Second
	// beatStale is the age of the last beat from which on a pass is no longer running.
	beatStale = 15 * time.Second
	// resumable is how old a pass may be that is gone on with.
	resumable = 24 * time.Hour
)

// pass is one comparison under way, recorded on the source.
type pass struct {
	v    *Verifier
	id   uuid.UUID
	mode Mode
	done map[int]bool // full: tables that an earlier process was through with
	rows int64        // of these
}

// openPass records a new pass, or finds a full one that was interrupted and still
// speaks of the same tables, columns, owners and epochs.
func (v *Verifier) openPass(ctx context.Context, mode Mode) (*pass, error) {
	p := &pass{v: v, mode: mode, done: map[int]bool{}}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		if err := CreateState(ctx, conn); err != nil {
			return err
		}
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			owners, err := store.LoadOwnership(ctx, tx, v.migration())
			if err != nil {
				return err
			}
			subject := v.subject(owners)
			if mode == Full {
				resumed, err := p.resume(ctx, tx, subject)
				if err != nil || resumed {
					return err
				}
			}
			return p.insert(ctx, tx, subject, owners)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("record a pass: %w", err)
	}
	return p, nil
}

// subject says what a pass is about: another subject makes it another pass.
func (v *Verifier) subject(owners []store.Ownership) string {
	var parts []string
	for _, t := range v.cfg.Layout.Tables {
		parts = append(parts, t.Name()+"("+strings.Join(layout.Names(t.Copied()), ",")+")")
	}
	for _, o := range owners {
		parts = append(parts, fmt.Sprintf("%s=%s/%d", o.Database, o.Owner, o.Epoch))
	}
	return strings.Join(parts, ";")
}

func (p *pass) resume(ctx context.Context, tx pgx.Tx, subject string) (bool, error) {
	const find = `UPDATE shardctl.verify_pass SET heartbeat_at = clock_timestamp() WHERE migration = $1 AND pass = (
	SELECT pass FROM shardctl.verify_pass WHERE migration = $1 AND mode = 'full' ORDER BY started_at DESC LIMIT 1)
	AND finished_at IS NULL AND subject = $2 AND started_at > clock_timestamp() - $3::interval
	AND NOT EXISTS (SELECT FROM shardctl.verify_round r WHERE r.migration = $1 AND r.since > started_at) RETURNING pass`
	err := tx.QueryRow(ctx, find, p.v.migration(), subject, resumable).Scan((*[16]byte)(&p.id))
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, "SELECT table_no, rows FROM shardctl.verify_pass_table WHERE migration = $1 AND pass = $2", p.v.migration(), [16]byte(p.id))
	if err != nil {
		return false, err
	}
	var no int
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&no, &n}, func() error {
		p.done[no], p.rows = true, p.rows+n
		return nil
	})
	return true, err
}

func (p *pass) insert(ctx context.Context, tx pgx.Tx, subject string, owners []store.Ownership) error {
	p.id = uuid.New()
	const sql = `INSERT INTO shardctl.verify_pass (migration, pass, mode, subject) VALUES ($1, $2, $3, $4)`
	if _, err := tx.Exec(ctx, sql, p.v.migration(), [16]byte(p.id), p.mode, subject); err != nil {
		return err
	}
	for _, o := range owners {
		const sql = `INSERT INTO shardctl.verify_pass_database (migration, pass, database, owner, epoch) VALUES ($1, $2, $3, $4, $5)`
		if _, err := tx.Exec(ctx, sql, p.v.migration(), [16]byte(p.id), o.Database, o.Owner, o.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// alive keeps the pass's heartbeat until ctx ends.
func (p *pass) alive(ctx context.Context) error {
	const sql = `UPDATE shardctl.verify_pass SET heartbeat_at = clock_timestamp() WHERE migration = $1 AND pass = $2`
	for sleep.For(ctx, beatEvery) == nil {
		err := p.v.onSource(ctx, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, sql, p.v.migration(), [16]byte(p.id))
			return err
		})
		if err != nil && ctx.Err() == nil && !postgres.Transient(err) {
			return fmt.Errorf("keep the pass's heartbeat: %w", err)
		}
	}
	return nil
}

// saveTable records a table's result; a later process does not compare it again.
func (p *pass) saveTable(ctx context.Context, t *layout.Table, res *tableResult) error {
	err := p.v.onSource(ctx, func(conn *pgxpool.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if err := p.saveDifferences(ctx, tx, t, res.found); err != nil {
				return err
			}
			if err := p.v.saveUnsettled(ctx, tx, t, res.unsettled); err != nil {
				return err
			}
			partial := res.partial
			if res.overflow > 0 && partial == "" {
				partial = fmt.Sprintf("more keys of %s than can be kept went on changing", t.Name())
			}
			const note = `UPDATE shardctl.verify_pass SET truncated = truncated OR $3, reason = CASE WHEN $4 = '' THEN reason ELSE $4 END WHERE migration = $1 AND pass = $2`
			if _, err := tx.Exec(ctx, note, p.v.migration(), [16]byte(p.id), res.truncated, partial); err != nil {
				return err
			}
			const sql = `INSERT INTO shardctl.verify_pass_table (migration, pass, table_no, rows) VALUES ($1, $2, $3, $4)`
			_, err := tx.Exec(ctx, sql, p.v.migration(), [16]byte(p.id), t.No, res.rows)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("record what was found in %s: %w", t.Name(), err)
	}
	return nil
}

func (p *pass) saveDifferences(ctx context.Context, tx pgx.Tx, t *layout.Table, found []Difference) error {
	sort.Slice(found, func(i, j int) bool { return strings.Join(found[i].Key, "\x00") < strings.Join(found[j].Key, "\x00") })
	const sql = `INSERT INTO shardctl.verify_difference (migration, pass, database, schema_name, table_no, kind, direction, key, columns)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	batch := &pgx.Batch{}
	for _, d := range found {
		batch.Queue(sql, p.v.migration(), [16]byte(p.id), d.Database, d.Schema, t.No, d.Kind, d.Direction, d.Key, d.Columns)
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, batch).Close()
}

// saveUnsettled remembers keys that the next round must judge.
func (v *Verifier) saveUnsettled(ctx context.Context, tx pgx.Tx, t *layout.Table, open []openKey) error {
	const sql = `INSERT INTO shardctl.verify_unsettled (migration, database, table_no, key) VALUES ($1, $2, $3, $4)
	ON CONFLICT (migration, database, table_no, key) DO UPDATE SET at = clock_timestamp()`
	batch := &pgx.Batch{}
	for _, o := range open {
		for _, d := range o.on {
			batch.Queue(sql, v.migration(), d.Name, t.No, []string(o.key))
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, batch).Close()
}

// finish closes the pass, with what share of the rows it looked at.
func (p *pass) finish(ctx context.Context, coverage float64) error {
	const sql = `UPDATE shardctl.verify_pass SET finished_at = clock_timestamp(), coverage = $3
	WHERE migration = $1 AND pass = $2`
	err := p.v.onSource(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, sql, p.v.migration(), [16]byte(p.id), coverage)
		return err
	})
	if err != nil {
		return fmt.Errorf("close the pass: %w", err)
	}
	return nil
}

// onSource runs fn on the source, where verification's state is.
func (v *Verifier) onSource(ctx context.Context, fn func(*pgxpool.Conn) error) error {
	return v.source.with(ctx, fn)
}
