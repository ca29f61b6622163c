package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	pg "github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// callTimeout bounds each call, connecting included: in a switch's window clients wait.
const callTimeout = 5 * time.Second

// stoppedTimeout is how long a process that was stopped between two statements of a
// transaction keeps its row: another one has to write it while clients wait.
const stoppedTimeout = time.Second

// Router writes the document into a row.
type Router struct {
	migration string
	target    pg.Target
	name      string // host:port/dbname schema.table
	table     migrate.TableName
	channel   string

	mu   sync.Mutex // one call at a time on the session
	conn *pgx.Conn  // opened again when it broke
}

var _ topology.Router = (*Router)(nil)

// New makes the Router of one item of spec.Topology. It connects to nothing.
func New(spec *migrate.Spec, item migrate.Router) (*Router, error) {
	cfg, err := pgconn.ParseConfig(item.DSN.Reveal())
	if err != nil {
		return nil, migrate.Usage("dsn.malformed", "dsn of the table "+item.Table.String(), "the DSN cannot be parsed", "give a postgres:// URL or key=value pairs")
	}
	at := topology.Address{Host: cfg.Host, Port: cfg.Port, DBName: cfg.Database}
	if at.DBName == "" {
		at.DBName = cfg.User
	}
	place := net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))) + "/" + at.DBName
	return &Router{
		migration: spec.Migration, target: pg.Target{Name: "the topology's database", DSN: item.DSN},
		name: place + " " + item.Table.String(), table: item.Table, channel: item.Channel,
	}, nil
}

// Name gives "postgres", the database and the table.
func (r *Router) Name() string { return "postgres " + r.name }

// Open opens the session.
func (r *Router) Open(ctx context.Context) error {
	return r.call(ctx, func(context.Context, *pgx.Conn) error { return nil })
}

// Close closes it.
func (r *Router) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	pg.CloseQuietly(context.Background(), r.conn)
	r.conn = nil
}

// Pause does nothing: a table holds nobody.
func (r *Router) Pause(context.Context, topology.Scope) error { return nil }

// Resume does nothing.
func (r *Router) Resume(context.Context) error { return nil }

// call runs fn on the session, and again on a new one if the old one turns out to be
// broken: all that is done here may be done twice.
func (r *Router) call(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for first := r.usable(); ; first = false {
		conn, err := r.session(ctx)
		if err != nil {
			return err
		}
		err = fn(ctx, conn)
		if err == nil || !first || !conn.IsClosed() || ctx.Err() != nil {
			return err
		}
	}
}

func (r *Router) usable() bool { return r.conn != nil && !r.conn.IsClosed() }

// session gives the session, a new one if the old one broke.
func (r *Router) session(ctx context.Context) (*pgx.Conn, error) {
	if r.usable() {
		return r.conn, nil
	}
	conn, err := pg.Connect(ctx, r.target, "topology")
	if err != nil {
		return nil, err
	}
	// The server ends what a process that was stopped has begun.
	if err := pg.QuickTimeouts(ctx, conn, callTimeout, stoppedTimeout); err != nil {
		pg.CloseQuietly(ctx, conn)
		return nil, r.failed("connect", err)
	}
	r.conn = conn
	return conn, nil
}

// failed says where and what.
func (r *Router) failed(what string, err error) error {
	return fmt.Errorf("postgres %s: %s: %w", r.name, what, err)
}
