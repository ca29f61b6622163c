package cutover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
)

// turnstile is a pooler as a switch sees one: a process of its own that holds clients
// between transactions, stays held when the one who asked dies, and whose connections can
// be lost. Its clients pass through enter and leave.
type turnstile struct {
	listener net.Listener
	group    sync.WaitGroup

	mu     sync.Mutex
	moved  *sync.Cond // held or inside has changed
	held   bool
	scope  topology.Scope
	inside map[int]int // clients in a transaction, by shard
	conns  map[net.Conn]bool
	lose   int // requests that are carried out without an answer
}

func newTurnstile(t *testing.T) *turnstile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &turnstile{listener: l, inside: map[int]int{}, conns: map[net.Conn]bool{}}
	s.moved = sync.NewCond(&s.mu)
	s.group.Go(s.accept)
	t.Cleanup(func() {
		_ = l.Close()
		s.cut(0)
		s.group.Wait()
	})
	return s
}

func (s *turnstile) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.group.Go(func() { s.serve(conn) })
	}
}

// demand is a request to a turnstile.
type demand struct {
	Hold  bool           `json:"hold"`
	Scope topology.Scope `json:"scope"`
}

func (s *turnstile) serve(conn net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		_ = conn.Close()
	}()
	for requests := json.NewDecoder(conn); ; {
		var d demand
		if requests.Decode(&d) != nil {
			return
		}
		if !s.obey(d) {
			return
		}
		if _, err := fmt.Fprintln(conn, "ok"); err != nil {
			return
		}
	}
}

// obey carries out a request, and reports whether it is to be answered. A hold waits
// until nobody in its scope is inside, or it is taken back.
func (s *turnstile) obey(d demand) (answer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.scope = d.Hold, d.Scope
	s.moved.Broadcast()
	if answer = s.lose == 0; !answer {
		s.lose--
	}
	for d.Hold && s.held && s.busy() {
		s.moved.Wait()
	}
	return answer
}

func (s *turnstile) busy() bool {
	for shard, n := range s.inside {
		if n > 0 && s.scope.Has(shard) {
			return true
		}
	}
	return false
}

// enter waits while the shard's clients are held. Who was held in vain until the end of
// the context is not let in.
func (s *turnstile) enter(ctx context.Context, shard int) error {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moved.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held && s.scope.Has(shard) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.moved.Wait()
	}
	s.inside[shard]++
	return nil
}

func (s *turnstile) leave(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[shard]--
	s.moved.Broadcast()
}

func (s *turnstile) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// cut resets every connection, and loses the answers to the next requests.
func (s *turnstile) cut(lose int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
	for conn := range s.conns {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// turned is a router that tells a file where to and a turnstile when, as the driver of a
// pooler does: a connection that was lost is opened again, once for each request.
type turned struct {
	topology.Router
	addr string

	mu      sync.Mutex
	conn    net.Conn
	answers *bufio.Reader
}

func (r *turned) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func (r *turned) drop() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
	r.conn = nil
}

func (r *turned) Describe(ctx context.Context) (topology.Description, error) {
	d, err := r.Router.Describe(ctx)
	return d, errors.Join(err, r.open(ctx))
}

func (r *turned) Pause(ctx context.Context, scope topology.Scope) error {
	err := r.ask(ctx, demand{Hold: true, Scope: scope})
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, r.ask(clean, demand{}))
	}
	return err
}

func (r *turned) Resume(ctx context.Context) error { return r.ask(ctx, demand{}) }

func (r *turned) open(ctx context.Context) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		return nil
	}
	if r.conn, err = new(net.Dialer).DialContext(ctx, "tcp", r.addr); err == nil {
		r.answers = bufio.NewReader(r.conn)
	}
	return err
}

func (r *turned) ask(ctx context.Context, d demand) error {
	err := r.askOnce(ctx, d)
	if err != nil && ctx.Err() == nil {
		err = r.askOnce(ctx, d)
	}
	return err
}

func (r *turned) askOnce(ctx context.Context, d demand) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = r.conn.SetDeadline(time.Unix(1, 0)) })
	raw, err := json.Marshal(d)
	if err == nil {
		_, err = r.conn.Write(raw)
	}
	if err == nil {
		_, err = r.answers.ReadString('\n')
	}
	if !stop() || err != nil {
		r.drop()
	}
	if err != nil {
		return fmt.Errorf("the turnstile: %w", err)
	}
	return nil
}
