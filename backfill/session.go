package backfill

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// session is one connection that several goroutines use in turn, opened when it
// is first needed and again when it broke.
type session struct {
	open func(context.Context) (*pgx.Conn, error)

	mu   sync.Mutex
	conn *pgx.Conn
}

func (s *session) with(ctx context.Context, f func(*pgx.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := s.open(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	return f(s.conn)
}

func (s *session) close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	postgres.CloseQuietly(ctx, s.conn)
}
