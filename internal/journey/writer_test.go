package journey

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// writer is one user of the application: it alone writes the rows of its workspaces,
// through the pooler, one request after the other.
type writer struct {
	book
	w          *world
	no         int
	workspaces []string
	places     map[string]int // workspace → shard
	sameShard  bool           // keys change within a logical shard only
	noPlans    bool           // the everywhere table is left alone
	tolerant   bool           // a test stops servers: an error is settled, not a failure
	random     *rand.Rand
	conns      map[string]*pgx.Conn // by entry of the pooler
	requests   int
	spans      []span
}

// span is one acknowledged request, as the writer saw it.
type span struct {
	start, end time.Time
	kind       string
}

// session is what a request runs on: a transaction, or a connection for a single
// statement.
type session interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// request is one transaction of the application.
type request struct {
	kind   string
	entry  string
	blocks []string // whose rows, or comments on them, it touches
	gone   []string // of these, which it deletes
	plan   *plan    // of the everywhere table; id 0 is not known yet
	single bool     // one statement without BEGIN
	run    func(context.Context, session) error
	note   func() // enters it in the book once it is acknowledged
}

func newWriter(w *world, no int) *writer {
	return &writer{w: w, no: no, random: rand.New(rand.NewPCG(uint64(no), 7)), conns: map[string]*pgx.Conn{}}
}

// errChangedMind makes a transaction end with ROLLBACK, as applications do.
var errChangedMind = errors.New("changed its mind")

// next draws a request and makes it.
func (x *writer) next(ctx context.Context) error {
	x.requests++
	r := x.draw()
	start := time.Now()
	err := x.perform(ctx, r)
	if errors.Is(err, errChangedMind) {
		err = nil
	} else if err == nil && r.note != nil {
		r.note()
	}
	if err != nil && x.tolerant {
		return x.settle(ctx, r, err)
	}
	if err != nil {
		return fmt.Errorf("writer %d: %s through %s: %w", x.no, r.kind, r.entry, err)
	}
	x.spans = append(x.spans, span{start, time.Now(), r.kind})
	return nil
}

func (x *writer) perform(ctx context.Context, r *request) error {
	conn, err := x.connection(ctx, r.entry)
	if err != nil {
		return err
	}
	if r.single {
		return r.run(ctx, conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.run(ctx, tx) })
}

// connection opens a session through an entry, or gives the one that is open.
func (x *writer) connection(ctx context.Context, entry string) (*pgx.Conn, error) {
	if conn := x.conns[entry]; conn != nil && !conn.IsClosed() {
		return conn, nil
	}
	cfg, err := pgx.ParseConfig(fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", app, x.w.bouncer.Port(), entry))
	if err != nil {
		return nil, err
	}
	// A transaction pooler gives each transaction another server: nothing prepared.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	x.conns[entry] = conn
	return conn, nil
}

func (x *writer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, conn := range x.conns {
		_ = conn.Close(ctx)
	}
}

// token is a text that this request alone writes.
func (x *writer) token() string { return fmt.Sprintf("w%d-%d", x.no, x.requests) }

// through is the entry that the application uses for a workspace.
func (x *writer) through(workspace string) string { return x.w.entry(x.places[workspace]) }

// one runs a statement that has to touch exactly one row, and gives its values as text.
func one(ctx context.Context, db session, sql string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]string
	for rows.Next() {
		values := make([]string, len(rows.RawValues()))
		for i, v := range rows.RawValues() {
			values[i] = string(v)
		}
		all = append(all, values)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%d rows instead of one: an acknowledged row is not where it is routed: %s %v", len(all), sql, args)
	}
	return all[0], nil
}

// same reports a row that is not as its last acknowledged write left it.
func same(got, want string) error {
	if got != want {
		return fmt.Errorf("a row is not as acknowledged: it is %s instead of %s", got, want)
	}
	return nil
}
