package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/migrate"
)

// upgradeTry bounds one try of an upgrade: writers queue behind our request for
// no longer than this, and it is below any sensible deadlock_timeout, so that
// we give way and not an application.
const upgradeTry = 500 * time.Millisecond

// PreLock takes SHARE UPDATE EXCLUSIVE on the tables (quoted names). It blocks no
// reader and no writer, evicts an autovacuum and keeps it away: a later upgrade
// then meets only applications. The timeout is deadlock_timeout + 2 s, because a
// shorter one never evicts an autovacuum. Locks are released by the transaction.
func PreLock(ctx context.Context, tx pgx.Tx, tables []string) error {
	if len(tables) == 0 {
		return nil
	}
	const wait = `SELECT set_config('lock_timeout', (extract(epoch FROM current_setting('deadlock_timeout')::interval) * 1000 + 2000)::int || 'ms', true)`
	if _, err := tx.Exec(ctx, wait); err != nil {
		return fmt.Errorf("pre-lock: %w", err)
	}
	sp, err := tx.Begin(ctx) // after a refusal the holders can be asked for
	if err != nil {
		return fmt.Errorf("pre-lock: %w", err)
	}
	for _, table := range tables {
		if err := tryLock(ctx, sp, "SHARE UPDATE EXCLUSIVE", []string{table}); err != nil {
			return preLockFailure(ctx, tx, table, errors.Join(err, rollback(ctx, sp)))
		}
	}
	if err := sp.Commit(ctx); err != nil {
		return fmt.Errorf("pre-lock: %w", err)
	}
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = 0")
	return err
}

// preLockFailure names who holds the table.
func preLockFailure(ctx context.Context, tx pgx.Tx, table string, err error) error {
	if SQLState(err) != "55P03" {
		return fmt.Errorf("pre-lock %s: %w", table, err)
	}
	holders, holdersErr := Holders(ctx, tx, table)
	if holdersErr != nil {
		return errors.Join(fmt.Errorf("pre-lock %s: %w", table, err), holdersErr)
	}
	return &migrate.Failure{Code: "lock.held", Object: table, Message: "a maintenance command holds the table: " + strings.Join(holders, "; "),
		Hint: "wait for it or end it, then run the command again", Exit: migrate.ExitRefused, Err: err}
}

// UpgradeLock takes a stronger lock on tables that PreLock has, each try under a
// savepoint so that the pre-lock survives a refusal. Tries are ≤ 500 ms and below
// deadlock_timeout, with a jittered gap in which the queue behind us drains. At the
// deadline it fails, naming the holders.
func UpgradeLock(ctx context.Context, tx pgx.Tx, mode string, tables []string, deadline time.Time) error {
	limit, err := tryLimit(ctx, tx)
	if err != nil {
		return err
	}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return upgradeFailure(ctx, tx, mode, tables)
		}
		err := lockUnderSavepoint(ctx, tx, mode, tables, min(limit, left))
		if err == nil {
			return nil
		}
		if SQLState(err) != "55P03" && SQLState(err) != "40P01" {
			return fmt.Errorf("lock %s: %w", strings.Join(tables, ", "), err)
		}
		if err := sleep.For(ctx, min(jitter(), time.Until(deadline))); err != nil {
			return err
		}
	}
}

func tryLimit(ctx context.Context, tx pgx.Tx) (time.Duration, error) {
	var ms float64
	const sql = `SELECT extract(epoch FROM current_setting('deadlock_timeout')::interval) * 1000`
	if err := tx.QueryRow(ctx, sql).Scan(&ms); err != nil {
		return 0, fmt.Errorf("read deadlock_timeout: %w", err)
	}
	return max(min(upgradeTry, time.Duration(ms*0.8)*time.Millisecond), time.Millisecond), nil
}

func jitter() time.Duration { return time.Duration(20+rand.IntN(60)) * time.Millisecond }

func lockUnderSavepoint(ctx context.Context, tx pgx.Tx, mode string, tables []string, timeout time.Duration) error {
	sp, err := tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	set := fmt.Sprintf("SET LOCAL lock_timeout = %d", max(timeout.Milliseconds(), 1))
	if _, err = sp.Exec(ctx, set); err == nil {
		err = tryLock(ctx, sp, mode, tables)
	}
	if err != nil {
		return errors.Join(err, rollback(ctx, sp))
	}
	if err := sp.Commit(ctx); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = 0")
	return err
}

func tryLock(ctx context.Context, tx pgx.Tx, mode string, tables []string) error {
	_, err := tx.Exec(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN "+mode+" MODE")
	return err
}

func upgradeFailure(ctx context.Context, tx pgx.Tx, mode string, tables []string) error {
	var all []string
	for _, table := range tables {
		holders, err := Holders(ctx, tx, table)
		if err != nil {
			return err
		}
		all = append(all, holders...)
	}
	who := "held by " + strings.Join(all, "; ")
	if len(all) == 0 {
		who = "whoever held it has let it go meanwhile"
	}
	return migrate.Refuse("lock.timeout", strings.Join(tables, ", "), "no "+mode+" lock in time; "+who,
		"end or wait for those sessions, then run the command again")
}

// Holders describes the other sessions that hold a lock stronger than a reader's
// on a table (quoted name), one text each.
func Holders(ctx context.Context, q Querier, table string) ([]string, error) {
	const sql = `SELECT format('pid %s (%s, %s, %s old): %s', a.pid, coalesce(nullif(a.application_name, ''), a.backend_type), l.mode,
	  coalesce(date_trunc('second', now() - a.xact_start)::text, '?'), left(regexp_replace(coalesce(a.query, ''), '\s+', ' ', 'g'), 80))
	FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.relation = to_regclass($1) AND l.granted AND l.pid <> pg_backend_pid() AND l.mode <> 'AccessShareLock'
	ORDER BY a.xact_start NULLS LAST LIMIT 5`
	rows, err := q.Query(ctx, sql, table)
	if err != nil {
		return nil, fmt.Errorf("look for lock holders of %s: %w", table, err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
