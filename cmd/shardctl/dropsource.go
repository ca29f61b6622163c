package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/moved"
	"github.com/shardctl/shardctl/internal/postgres"
)

// checkDrop looks, before anything is changed, whether the moved rows may go.
func (s *session) checkDrop(ctx context.Context) error {
	return s.asApplier(ctx, func(conn *pgx.Conn, l *layout.Layout) error {
		replica, err := postgres.BecomeApplier(ctx, conn, s.spec.Migration)
		if err != nil {
			return err
		}
		return moved.Check(ctx, conn, l, replica)
	})
}

// dropSource removes the moved rows from the source.
func (s *session) dropSource(ctx context.Context) error {
	if s.migration.SourceDroppedAt != nil { // by another process since
		return nil
	}
	err := s.journaled(ctx, "complete --drop-source", func(ctx context.Context) error {
		return s.asApplier(ctx, func(conn *pgx.Conn, l *layout.Layout) error { return moved.Drop(ctx, conn, l) })
	})
	if err != nil {
		return err
	}
	return s.reload(ctx)
}

// asApplier gives a session on the source that nothing else uses: it is made the
// applier, which our triggers let pass.
func (s *session) asApplier(ctx context.Context, fn func(*pgx.Conn, *layout.Layout) error) error {
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	conn, err := postgres.Connect(ctx, s.sourceTarget(), "complete --drop-source")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	return fn(conn, l)
}
