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
	"github.com/shardctl/shardctl/internal/sleep"
)

const (
	// firstPages is the first chunk, before anything is known of the table's speed: 2 MB.
	// It is smaller if much is stored outside the pages.
	firstPages = 256
	// maxPages bounds a chunk of a table whose pages are nearly empty.
	maxPages = 1 << 14
	// tries is how often a chunk is read again after an error that may pass.
	tries = 8
)

// reading is one heap on its way through this process.
type reading struct {
	server *server
	heap   heap
	locked []string                    // tables that a chunk reads
	before func(context.Context) error // returns when the next chunk is welcome; nil: always
	// read takes the rows of a chunk and gives their number. A chunk that fails in a way
	// that may pass is read again, so that it counts nothing.
	read func(tx pgx.Tx, where string) (int64, error)
	done func() // counts the chunk; nothing of it is open any more
}

// walk reads a heap once in physical order, in transactions that are short: each
// locks first and only then takes its snapshot, since one that is older than a
// rewrite sees an empty table.
func (v *Verifier) walk(ctx context.Context, r reading) error {
	step := max(firstPages/max(r.heap.weight, 1), 1)
	for from, open := int64(0), true; open; {
		to := from + step
		if to >= r.heap.pages {
			to, open = -1, false
		}
		if r.before != nil {
			if err := r.before(ctx); err != nil {
				return err
			}
		}
		started := time.Now()
		var rows int64
		err := v.persist(ctx, r.server, func() (err error) {
			rows, err = r.chunk(ctx, from, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("read %s on %s: %w", r.heap.table, r.server.Name, err)
		}
		took := time.Since(started)
		r.done()
		from, step = to, v.nextStep(step, rows, took)
	}
	return nil
}

func (r reading) chunk(ctx context.Context, from, to int64) (rows int64, err error) {
	ranges := r.server.version >= 140000
	err = r.server.chunk(ctx, r.locked, func(tx pgx.Tx) error {
		last := r.heap.pages
		if !ranges && to < 0 { // the list of pages must reach those that were added since
			const size = "SELECT pg_relation_size($1::oid) / current_setting('block_size')::int"
			if err := tx.QueryRow(ctx, size, r.heap.oid).Scan(&last); err != nil {
				return err
			}
		}
		rows, err = r.read(tx, pages(ranges, from, to, last))
		return err
	})
	return rows, err
}

// nextStep steers towards the wanted duration, within what fits into memory and is
// read in a second where there is a rate.
func (v *Verifier) nextStep(step, rows int64, took time.Duration) int64 {
	most := v.limits.rows
	if rate := int64(v.cfg.Layout.Spec.Throttle.MaxRate); rate > 0 {
		most = min(most, rate)
	}
	next := float64(step) * min(4, float64(v.limits.chunk)/float64(max(took, time.Millisecond)))
	if rows > 0 {
		next = min(next, float64(step)*float64(most)/float64(rows))
	}
	return min(max(int64(next), 1), maxPages)
}

// chunk runs fn in a transaction that holds ACCESS SHARE on the named tables.
func (s *server) chunk(ctx context.Context, locked []string, fn func(pgx.Tx) error) error {
	return s.with(ctx, func(conn *pgxpool.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			// A source in trouble has no processes to spare.
			if err := lockTables(ctx, tx, locked, "SET LOCAL max_parallel_workers_per_gather = 0"); err != nil {
				return err
			}
			return fn(tx)
		})
	})
}

// lockTables takes ACCESS SHARE, before the transaction's snapshot. It waits as
// long as is harmless for those who queue behind us; the caller tries again. The
// server ends the transaction of a process that was stopped, so that neither the
// locks nor the snapshot of one outlive it for long. Settings are for the
// transaction, beside these.
func lockTables(ctx context.Context, tx pgx.Tx, tables []string, settings ...string) error {
	settings = append(settings, "SET LOCAL lock_timeout = '500ms'", "SET LOCAL idle_in_transaction_session_timeout = '10s'", "SET LOCAL statement_timeout = '5min'")
	sql := strings.Join(settings, "; ") + "; LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS SHARE MODE"
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
		if waitErr := sleep.For(ctx, pause); waitErr != nil {
			return errors.Join(err, waitErr)
		}
		pause *= 2
	}
}
