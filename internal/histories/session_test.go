package histories

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// session is one of the application's.
type session struct {
	w        *world
	name     string
	conn     *pgx.Conn
	busy     chan error // holds the answer of the statement under way; nil: there is none
	saves    int
	prepared string // name of its prepared transaction
}

// settleFirst is how long an answer is awaited before somebody asks who waits.
const settleFirst = time.Millisecond

// do runs f beside the history until it is done or waits for a lock, and reports
// whether it is done.
func (s *session) do(ctx context.Context, f func(context.Context) error) bool {
	s.busy = make(chan error, 1)
	go func(done chan<- error) { done <- f(ctx) }(s.busy)
	return s.settle(ctx)
}

func (s *session) exec(ctx context.Context, sql string) bool {
	return s.do(ctx, func(ctx context.Context) error {
		_, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}

// settle waits for the statement under way, unless it waits itself. What the server
// says of it is the application's affair.
func (s *session) settle(ctx context.Context) bool {
	if s.busy == nil {
		return true
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case <-s.busy:
			s.busy = nil
			return true
		case <-time.After(settleFirst):
		}
		if s.w.waits(wait, "^$", s.conn.PgConn().PID()) {
			return false
		}
	}
}

func (s *session) inTx() bool   { return s.busy == nil && s.conn.PgConn().TxStatus() != 'I' }
func (s *session) broken() bool { return s.busy == nil && s.conn.PgConn().TxStatus() == 'E' }

// play makes one step of the application's. A session that waits makes none.
func (s *session) play(ctx context.Context, st step, n int) {
	if !s.settle(ctx) {
		return
	}
	if s.broken() && st.kind != rollbackTo {
		s.end(ctx, "ROLLBACK")
	}
	if s.busy != nil { // that waits: one statement at a time
		return
	}
	switch st.kind {
	case begin, beginRepeat:
		if !s.inTx() {
			s.exec(ctx, strings.ToUpper(strings.Replace(st.kind, "begin repeatable", "begin isolation level repeatable", 1)))
		}
	case commit:
		s.end(ctx, "COMMIT")
	case rollback:
		s.end(ctx, "ROLLBACK")
	case savepoint:
		if s.inTx() {
			s.saves++
			s.exec(ctx, fmt.Sprintf("SAVEPOINT s%d", s.saves))
		}
	case rollbackTo:
		s.rollbackTo(ctx, st)
	case prepareTx:
		if s.inTx() && s.prepared == "" {
			s.prepared, s.saves = fmt.Sprintf("%s %s %d", s.w.servers[0].Name, s.name, n), 0
			s.exec(ctx, "PREPARE TRANSACTION '"+s.prepared+"'")
		}
	case finishTx:
		s.finishPrepared(ctx, st.a%2 == 0)
	case copyEvents:
		s.do(ctx, func(ctx context.Context) error { return copyIn(ctx, s.conn, st, n) })
	default:
		sql := writes[st.kind](st, n, s.w.shape)
		if s.inTx() {
			sql = strings.TrimSuffix(strings.TrimPrefix(sql, "BEGIN; "), "; COMMIT")
		}
		s.exec(ctx, sql)
	}
}

func (s *session) end(ctx context.Context, sql string) {
	if s.inTx() {
		s.saves = 0
		s.exec(ctx, sql)
	}
}

func (s *session) rollbackTo(ctx context.Context, st step) {
	switch {
	case !s.inTx():
	case s.saves == 0:
		s.end(ctx, "ROLLBACK")
	default:
		s.saves = 1 + st.a%s.saves
		s.exec(ctx, fmt.Sprintf("ROLLBACK TO s%d", s.saves))
	}
}

func (s *session) finishPrepared(ctx context.Context, keep bool) {
	if s.prepared == "" || s.inTx() {
		return
	}
	sql := "ROLLBACK PREPARED '" + s.prepared + "'"
	if keep {
		sql = "COMMIT PREPARED '" + s.prepared + "'"
	}
	s.prepared = ""
	s.exec(ctx, sql)
}

// letGo ends the prepared transaction from elsewhere: its session may wait for it, a
// circle that the server does not see.
func (s *session) letGo(ctx context.Context, keep bool) {
	if s.prepared == "" {
		return
	}
	sql := "ROLLBACK PREPARED '"
	if keep {
		sql = "COMMIT PREPARED '"
	}
	_, err := s.w.conns[0].Exec(ctx, sql+s.prepared+"'")
	if postgres.SQLState(err) != "42704" { // it failed to be prepared, or its session is still at it
		check(err)
		s.prepared = ""
	} else if s.busy == nil {
		s.prepared = ""
	}
}

// copyIn writes events with COPY, which no RETURNING nor ON CONFLICT helps.
func copyIn(ctx context.Context, conn *pgx.Conn, st step, n int) error {
	var rows strings.Builder
	for i := range 6 {
		fmt.Fprintf(&rows, "%d\t%d\t%d\tk%d\n", (st.a+i)%9, 60+st.b+i, (st.c+i)%20, n)
	}
	_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader(rows.String()), "COPY public.event FROM STDIN")
	return err
}

// endAll ends all transactions, some by a rollback: the sessions that wait go on
// when those that they wait for have ended.
func endAll(ctx context.Context, all []*session) {
	for deadline := time.Now().Add(patience); ; {
		left := 0
		for i, s := range all {
			s.letGo(ctx, i%2 == 0)
			if !s.settle(ctx) {
				left++
				continue
			}
			s.end(ctx, []string{"COMMIT", "COMMIT", "ROLLBACK"}[i%3])
			if !s.settle(ctx) {
				left++
			}
		}
		if left == 0 {
			return
		}
		check(ctx.Err())
		if time.Now().After(deadline) {
			check(fmt.Errorf("%d sessions do not end", left))
		}
	}
}

// close ends a session whatever it is doing, also after a failure.
func (s *session) close(ctx context.Context) {
	if s.busy != nil {
		_ = s.conn.PgConn().CancelRequest(ctx)
		<-s.busy
	}
	_ = s.conn.Close(ctx)
}
