package auditlog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// link is one session to one server, opened when it is first needed and again
// after it broke. One goroutine uses it at a time.
type link struct {
	target  postgres.Target
	purpose string
	opened  func(ctx context.Context, conn *pgx.Conn) error // prepares a new session
	conn    *pgx.Conn
}

// get gives the session.
func (l *link) get(ctx context.Context) (*pgx.Conn, error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	l.conn = nil
	conn, err := postgres.Connect(ctx, l.target, l.purpose)
	if err != nil {
		return nil, err
	}
	if l.opened != nil {
		if err := l.opened(ctx, conn); err != nil {
			postgres.CloseQuietly(ctx, conn)
			return nil, err
		}
	}
	l.conn = conn
	return conn, nil
}

// close ends the session; get opens another.
func (l *link) close(ctx context.Context) {
	postgres.CloseQuietly(ctx, l.conn)
	l.conn = nil
}
