package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// cleanupTimeout bounds what is done after the caller has given up; a server
// that does not answer in this time will roll back when it sees the socket go.
const cleanupTimeout = 5 * time.Second

// Beginner starts a transaction: a connection or a pool.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// WithTx runs fn in a transaction and commits it. On an error it rolls back
// under a context that outlives cancellation; fn's error comes first.
func WithTx(ctx context.Context, b Beginner, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	tx, err := b.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, rollback(ctx, tx))
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := tx.Rollback(ctx)
	if err == nil || errors.Is(err, pgx.ErrTxClosed) || tx.Conn().IsClosed() {
		return nil // a closed session has rolled back
	}
	return fmt.Errorf("roll back: %w", err)
}

// Cleanup gives a context that outlives the caller's cancellation, bounded.
func Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// CloseQuietly closes a session, also after the caller's context has ended.
func CloseQuietly(ctx context.Context, conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := Cleanup(ctx)
	defer cancel()
	_ = conn.Close(ctx) // the server notices a lost socket by itself
}
