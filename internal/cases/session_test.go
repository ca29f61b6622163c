package cases

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sessions are the connections of a case's application, by name, kept open.
type sessions struct {
	dsn   string
	setup string // run first on each
	open  map[string]*pgx.Conn
}

func newSessions(dsn, setup string) *sessions {
	return &sessions{dsn: dsn, setup: setup, open: map[string]*pgx.Conn{}}
}

// run runs statements in the order of the file, each in its session.
func (s *sessions) run(ctx context.Context, statements []statement) error {
	for _, one := range statements {
		conn, err := s.get(ctx, one.session)
		if err != nil {
			return err
		}
		if err := execute(ctx, conn, one); err != nil {
			return fmt.Errorf("%.120s: %w", one.sql, err)
		}
	}
	return nil
}

func (s *sessions) get(ctx context.Context, name string) (*pgx.Conn, error) {
	if s.open[name] != nil {
		return s.open[name], nil
	}
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return nil, err
	}
	s.open[name] = conn
	if s.setup != "" {
		return conn, execute(ctx, conn, statement{sql: s.setup})
	}
	return conn, nil
}

// execute sends a statement as it stands, by the simple protocol.
func execute(ctx context.Context, conn *pgx.Conn, s statement) error {
	if s.copies {
		_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader(s.rows), s.sql)
		return err
	}
	return conn.PgConn().Exec(ctx, s.sql).Close()
}

func (s *sessions) close(ctx context.Context) error {
	var errs []error
	for _, conn := range s.open {
		errs = append(errs, conn.Close(ctx))
	}
	s.open = map[string]*pgx.Conn{}
	return errors.Join(errs...)
}
