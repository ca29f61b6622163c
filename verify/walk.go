package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/postgres"
)

const (
	// firstPages is the first chunk, before anything is known of the table's speed.
	firstPages = 256
	// maxPages bounds a chunk of a table whose pages are nearly empty.
	maxPages = 1 << 14
	// tries is how often a chunk is read again after an error that may pass.
	tries = 8
)

// walk reads a heap once in physical order, in transactions that are short: each
// locks first and only then takes its snapshot, since one that is older than a
// rewrite sees an empty table. A chunk that fails in a way that may pass is read
// again, so read must not count anything before it succeeds. It gives how many
// rows a chunk had.
func (v *Verifier) walk(ctx context.Context, s *server, h heap, locked []string, read func(tx pgx.Tx, where string) (int64, error)) error {
	step := int64(firstPages)
	for from, open := int64(0), true; open; {
		to := from + step
		if to >= h.pages {
			to, open = -1, false
		}
		started := time.Now()
		var rows int64
		err := v.persist(ctx, s, func() error {
			return s.chunk(ctx, locked, func(tx pgx.Tx) error {
				last := h.pages
				if s.version < 140000 && to < 0 {
					if err := tx.QueryRow(ctx, "SELECT pg_relation_size($1::oid) / current_setting('block_size')::int", h.oid).Scan(&last); err != nil {
						return err
					}
				}
				var err error
				rows, err = read(tx, pages(s.version >= 140000, from, to, last))
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("read %s on %s: %w", h.table, s.Name, err)
		}
		from, step = to, v.nextStep(step, rows, time.Since(started))
	}
	return nil
}

// nextStep steers towards the wanted duration, within what fits into memory.
func (v *Verifier) nextStep(step, rows int64, took time.Duration) int64 {
	next := float64(step) * min(4, float64(v.limits.chunk)/float64(max(took, time.Millisecond)))
	if rows > 0 {
		next = min(next, float64(step)*float64(v.limits.rows)/float64(rows))
	}
	return min(max(int64(next), 1), maxPages)
}

// chunk runs fn in a transaction that holds ACCESS SHARE on the named tables.
func (s *server) chunk(ctx context.Context, locked []string, fn func(pgx.Tx) error) error {
	return s.with(ctx, func(conn *pgxpool.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if err := lockTables(ctx, tx, locked); err != nil {
				return err
			}
			return fn(tx)
		})
	})
}

// lockTables takes ACCESS SHARE, before the transaction's snapshot. It waits as
// long as is harmless for those who queue behind us; the caller tries again.
func lockTables(ctx context.Context, tx pgx.Tx, tables []string) error {
	sql := "SET LOCAL lock_timeout = '500ms'; LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS SHARE MODE"
	if _, err := tx.Exec(ctx, sql); err != nil {
		return fmt.Errorf("lock %s: %w", strings.Join(tables, ", "), err)
	}
	return nil
}

// persist runs fn again, with longer and longer pauses, while it fails in a way
// that may pass by itself.
func (v *Verifier) persist(ctx context.Context, s *server, fn func() error) error {
	pause := v.limits.backoff
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == tries || ctx.Err() != nil || !postgres.Transient(err) {
			return err
		}
		v.observe(Event{Kind: Retrying, Reason: s.Name + ": " + err.Error()})
		if waitErr := wait(ctx, pause); waitErr != nil {
			return errors.Join(err, waitErr)
		}
		pause *= 2
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
