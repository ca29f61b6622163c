package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// looker sees, past every proxy, what shardctl's sessions are at.
type looker struct {
	s     *site
	conns map[*node]*pgx.Conn
}

func newLooker(s *site) *looker { return &looker{s: s, conns: map[*node]*pgx.Conn{}} }

func (l *looker) close() {
	for _, conn := range l.conns {
		_ = conn.Close(context.Background())
	}
}

// open lists shardctl's open transactions on some servers, by a pattern of the session's
// name. A server that does not answer has none.
func (l *looker) open(ctx context.Context, pattern string, nodes ...*node) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range nodes {
		conn := l.conns[n]
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, n.DSN("postgres")); err != nil {
				continue
			}
			l.conns[n] = conn
		}
		const sql = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE xact_start IS NOT NULL AND application_name LIKE $1 AND application_name NOT LIKE '% lease' AND datname = $2"
		rows, err := conn.Query(ctx, sql, pattern, l.s.name)
		if err != nil {
			continue
		}
		here, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			continue
		}
		for _, name := range here {
			names = append(names, fmt.Sprintf("%q on %s", name, n.name))
		}
	}
	return names
}

// poll is how often the harness looks.
const poll = 3 * time.Millisecond

// until looks until something is seen, or the stage is over.
func until[T any](ctx context.Context, st *act, look func() (T, bool)) (T, bool) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if seen, ok := look(); ok {
			return seen, true
		}
		select {
		case <-ctx.Done():
			var none T
			return none, false
		case <-st.main.finished:
			if st.name != served {
				var none T
				return none, false
			}
		case <-tick.C:
		}
		if st.tired() {
			var none T
			return none, false
		}
	}
}
