package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/shardsql"
)

const (
	clients = 8
	// think leaves the machine some time for what is measured: eight clients with none
	// would measure the machine's saturation.
	think = 2 * time.Millisecond
)

// span is a time: of a switch, or of one request.
type span struct{ start, end time.Time }

// crowd is clients that write through the pooler, one request after the other, without
// ever trying one again.
type crowd struct {
	clients []*client
	stop    chan struct{}
	group   errgroup.Group
}

// client owns rows of a few shards and keeps count of what was acknowledged.
type client struct {
	mu     sync.Mutex
	rows   []*owned
	spans  []span
	failed int
}

// owned is a row that one client alone writes.
type owned struct {
	id       string
	conn     *pgx.Conn // of its shard's entry
	version  int64     // that was acknowledged last
	inFlight bool      // the last answer was lost: one more is as well
}

const rowsEach = 12

// startCrowd gives each client rows of two shards, and lets them write.
func (w *world) startCrowd(ctx context.Context, pooler *localpg.PgBouncer, shards int) (*crowd, error) {
	c := &crowd{stop: make(chan struct{})}
	source, err := pgx.Connect(ctx, w.source.DSN(appName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close(context.WithoutCancel(ctx)) }()
	peopled, err := w.peopled(ctx, source, shards)
	if err != nil {
		return nil, err
	}
	for i := range clients {
		x := &client{}
		for n := range 2 {
			shard := peopled[(i*2+n)*len(peopled)/(2*clients)]
			if err := x.adopt(ctx, source, pooler, shard, shards); err != nil {
				return nil, err
			}
		}
		c.clients = append(c.clients, x)
	}
	for _, x := range c.clients {
		c.group.Go(func() error { return x.work(ctx, c.stop) })
	}
	return c, nil
}

// peopled are the shards that have rows enough for a client.
func (w *world) peopled(ctx context.Context, source *pgx.Conn, shards int) ([]int, error) {
	sql := fmt.Sprintf("SELECT s FROM (SELECT %s AS s FROM block) b GROUP BY s HAVING count(*) >= %d ORDER BY s", shardsql.Expr("workspace_id", "uuid", shards), rowsEach/2)
	rows, err := source.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err == nil && len(found) < 2*clients {
		err = fmt.Errorf("only %d shards have rows enough for a client: load more rows", len(found))
	}
	return found, err
}

func (x *client) adopt(ctx context.Context, source *pgx.Conn, pooler *localpg.PgBouncer, shard, shards int) error {
	cfg, err := pgx.ParseConfig(pooler.DSN(fmt.Sprintf("app_%03d", shard)))
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a transaction pooler prepares nothing
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	rows, err := source.Query(ctx, fmt.Sprintf("SELECT id::text, version FROM block WHERE %s = $1 LIMIT %d", shardsql.Expr("workspace_id", "uuid", shards), rowsEach/2), shard)
	if err != nil {
		return err
	}
	row := owned{conn: conn}
	_, err = pgx.ForEachRow(rows, []any{&row.id, &row.version}, func() error {
		adopted := row
		x.rows = append(x.rows, &adopted)
		return nil
	})
	return err
}

// work writes until the crowd is stopped. A request that fails is counted; the client
// opens its session again, as any client does, and goes on with the next one.
func (x *client) work(ctx context.Context, stop <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		case <-time.After(think):
		}
		row := x.rows[n%len(x.rows)]
		started := time.Now()
		var version int64
		err := row.conn.QueryRow(ctx, "UPDATE block SET version = version + 1 WHERE id = $1::uuid RETURNING version", row.id).Scan(&version)
		if ctx.Err() != nil {
			return nil // the run was stopped by hand, and the request with it
		}
		x.mu.Lock()
		x.spans = append(x.spans, span{started, time.Now()})
		if err != nil {
			x.failed++
			say("a request failed: %v", err)
			row.inFlight = true
		} else {
			if version != row.version+1 && !row.inFlight {
				say("row %s went from version %d to %d", row.id, row.version, version)
			}
			row.version, row.inFlight = version, false
		}
		x.mu.Unlock()
		if err != nil && row.conn.IsClosed() {
			if err := x.reconnect(ctx, row.conn.Config()); err != nil {
				return err
			}
		}
	}
}

func (x *client) reconnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	for _, row := range x.rows {
		if row.conn.Config().Database == cfg.Database {
			row.conn = conn
		}
	}
	return nil
}

func (c *crowd) end() error {
	close(c.stop)
	err := c.group.Wait()
	for _, x := range c.clients {
		for _, row := range x.rows {
			_ = row.conn.Close(context.Background()) // nothing is left to say
		}
	}
	return err
}

// line makes the line of a kind of switch: for each, the longest that a request took which
// overlaps it, less what a request usually takes.
func (c *crowd) line(name string, switches []span) switched {
	l := switched{Name: name, N: len(switches), Requests: -1}
	usual := c.usual()
	var pauses samples
	for _, s := range switches {
		longest := time.Duration(0)
		for _, x := range c.clients {
			near := 0
			for _, r := range x.taken() {
				if r.end.After(s.start) && r.start.Before(s.end) {
					longest = max(longest, r.end.Sub(r.start))
				}
				if r.end.After(s.start.Add(-time.Second)) && r.start.Before(s.end.Add(time.Second)) {
					near++
				}
			}
			if l.Requests < 0 || near < l.Requests {
				l.Requests = near
			}
		}
		pauses = append(pauses, max(0, (longest-usual).Seconds()*1000))
	}
	for _, x := range c.clients {
		x.mu.Lock()
		l.Failed += x.failed
		x.mu.Unlock()
	}
	l.P50, l.P95, l.Max = round(pauses.median()), round(pauses.quantile(0.95)), round(pauses.quantile(1))
	if l.N >= 100 {
		l.P99 = round(pauses.quantile(0.99))
	}
	return l
}

// taken is what the client has taken so far; it goes on meanwhile.
func (x *client) taken() []span {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.spans[:len(x.spans):len(x.spans)]
}

// usual is the median of all requests.
func (c *crowd) usual() time.Duration {
	var all samples
	for _, x := range c.clients {
		for _, r := range x.taken() {
			all.add(r.end.Sub(r.start))
		}
	}
	return time.Duration(all.median() * float64(time.Second))
}

// lost counts rows that have fewer versions than were acknowledged, on the source, which
// owns them at the end. One that has more was written twice, which counts too.
func (w *world) lost(ctx context.Context, c *crowd) (lost int, err error) {
	for _, x := range c.clients {
		for _, row := range x.rows {
			version, err := value(ctx, w.source.DSN(appName), "SELECT version::float8 FROM block WHERE id = $1::uuid", row.id)
			if err != nil {
				return lost, err
			}
			if got := int64(version); got != row.version && (!row.inFlight || got != row.version+1) {
				say("row %s has version %d, acknowledged was %d", row.id, got, row.version)
				lost++
			}
		}
	}
	return lost, nil
}

// bareHold holds and releases the whole pooler, with its file read again in between: the
// floor of what any switch through it can reach.
func bareHold(ctx context.Context, pooler *localpg.PgBouncer) error {
	conn, err := pgconn.Connect(ctx, pooler.AdminDSN())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, command := range []string{"PAUSE", "RELOAD", "RESUME"} {
		if err := conn.Exec(ctx, command).Close(); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}
