package backfill

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

//go:embed claim_open.sql
var claimOpenSQL string

//go:embed claim_plan.sql
var claimPlanSQL string

// queue takes chunks from the source's tables, for all workers of this process,
// over one session: when that session is gone, all its chunks are free.
type queue struct {
	layout    *layout.Layout
	worker    string   // names this process in the queue
	databases []string // all of the migration
	sizes     *sizes

	session session
	backend postgres.Backend // of the session; written only when it opens

	mu     sync.Mutex
	active map[chunkKey]bool // what this process works on: only that gets heartbeats
}

// chunkKey names a chunk of this migration.
type chunkKey struct {
	plan        int64
	tableNo, no int
}

func (c Chunk) key() chunkKey { return chunkKey{c.Plan, c.Table.No, c.No} }

// errNone says that there is no chunk to take now.
var errNone = errors.New("no chunk to take")

func newQueue(cfg *Config, worker string) *queue {
	q := &queue{layout: cfg.Layout, worker: worker, sizes: newSizes(cfg.Signals.Pages), active: map[chunkKey]bool{}}
	for _, d := range cfg.Databases {
		q.databases = append(q.databases, d.Name)
	}
	q.session.open = func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := postgres.Connect(ctx, cfg.Source, "backfill queue")
		if err != nil {
			return nil, err
		}
		if q.backend, err = postgres.ReadBackend(ctx, conn); err != nil {
			postgres.CloseQuietly(ctx, conn)
			return nil, err
		}
		return conn, nil
	}
	return q
}

func (q *queue) migration() string { return q.layout.Spec.Migration }

func (q *queue) with(ctx context.Context, f func(*pgx.Conn) error) error {
	return q.session.with(ctx, f)
}

func (q *queue) hold(c Chunk, working bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if working {
		q.active[c.key()] = true
	} else {
		delete(q.active, c.key())
	}
}

// beat says that this process still works on its chunks.
func (q *queue) beat(ctx context.Context) error {
	var plans []int64
	var tables, nos []int
	q.mu.Lock()
	for k := range q.active {
		plans, tables, nos = append(plans, k.plan), append(tables, k.tableNo), append(nos, k.no)
	}
	q.mu.Unlock()
	if len(plans) == 0 {
		return nil
	}
	const sql = `UPDATE shardctl.chunk c SET heartbeat_at = clock_timestamp() FROM unnest($2::bigint[], $3::int[], $4::int[]) k(plan, table_no, no)
	WHERE c.migration = $1 AND (c.plan, c.table_no, c.no) = (k.plan, k.table_no, k.no) AND c.worker = $5`
	return q.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, q.migration(), plans, tables, nos, q.worker)
		return err
	})
}

// take claims a chunk that one of the databases lacks, and commits its note: a
// chunk that a dead worker left, or the next pages of a plan. Replayed is where
// the replica that will be read stands; "" is the source itself.
func (q *queue) take(ctx context.Context, databases []string, replayed string) (Chunk, error) {
	var c Chunk
	err := q.with(ctx, func(conn *pgx.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) (err error) {
			c, err = q.takeOpen(ctx, tx, databases)
			if errors.Is(err, errNone) {
				c, err = q.takeNext(ctx, tx)
			}
			if err != nil {
				return err
			}
			c.Note, err = q.note(ctx, tx, c, replayed)
			return err
		})
	})
	if err != nil {
		return Chunk{}, err
	}
	q.hold(c, true)
	return c, nil
}

func (q *queue) takeOpen(ctx context.Context, tx pgx.Tx, databases []string) (Chunk, error) {
	row := tx.QueryRow(ctx, claimOpenSQL, q.migration(), databases, heartbeatStale)
	var c Chunk
	var tableNo int
	err := row.Scan(&c.Plan, &tableNo, &c.No, &c.Relation, &c.Filenode, &c.From, &c.To, &c.Pending)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errNone
	}
	if err != nil {
		return c, fmt.Errorf("take a chunk: %w", err)
	}
	c.Table = q.layout.Tables[tableNo-1]
	return c, nil
}

// takeNext cuts the next chunk off a plan.
func (q *queue) takeNext(ctx context.Context, tx pgx.Tx) (Chunk, error) {
	var p plan
	err := tx.QueryRow(ctx, claimPlanSQL, q.migration()).
		Scan(&p.number, &p.tableNo, &p.leaf, &p.relation, &p.filenode, &p.pages, &p.bytes, &p.nextPage, &p.nextNo, &p.pagesNow)
	if errors.Is(err, pgx.ErrNoRows) {
		return Chunk{}, errNone
	}
	if err != nil {
		return Chunk{}, fmt.Errorf("take a chunk: %w", err)
	}
	c, next := p.cut(q.sizes.pages(p))
	c.Table, c.Pending = q.layout.Tables[p.tableNo-1], q.databases
	const advance = `UPDATE shardctl.backfill_plan SET next_page = $5, next_no = next_no + 1 WHERE migration = $1 AND plan = $2 AND table_no = $3 AND leaf = $4`
	if _, err := tx.Exec(ctx, advance, q.migration(), p.number, p.tableNo, p.leaf, next); err != nil {
		return Chunk{}, fmt.Errorf("advance the plan of %s: %w", p.relation, err)
	}
	const insert = `INSERT INTO shardctl.chunk (migration, plan, table_no, no, leaf, from_page, to_page, pending) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	if _, err := tx.Exec(ctx, insert, q.migration(), p.number, p.tableNo, c.No, p.leaf, c.From, c.To, c.Pending); err != nil {
		return Chunk{}, fmt.Errorf("write %s: %w", c, err)
	}
	return c, nil
}

// note marks a chunk as ours, with the newest tick that a snapshot opened after
// the commit certainly sees. A replica sees the ticks whose marker it has
// replayed: a tick's snapshot is older than the position stored in its marker.
func (q *queue) note(ctx context.Context, tx pgx.Tx, c Chunk, replayed string) (note int64, err error) {
	const sql = `UPDATE shardctl.chunk SET state = 'copying', worker = $5, backend_pid = $6, backend_start = $7, heartbeat_at = clock_timestamp(),
	  note = (SELECT coalesce(max(tick), 0) FROM shardctl.marker m WHERE m.migration = $1 AND ($8::text::pg_lsn IS NULL OR m.lsn <= $8::text::pg_lsn))
	WHERE migration = $1 AND plan = $2 AND table_no = $3 AND no = $4 RETURNING note`
	var lsn *string
	if replayed != "" {
		lsn = &replayed
	}
	err = tx.QueryRow(ctx, sql, q.migration(), c.Plan, c.Table.No, c.No, q.worker, q.backend.PID, q.backend.Start, lsn).Scan(&note)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errVoid
	}
	if err != nil {
		return 0, fmt.Errorf("note the tick of %s: %w", c, err)
	}
	return note, nil
}

// renote notes a newer tick for a chunk that is read again.
func (q *queue) renote(ctx context.Context, c *Chunk, replayed string) error {
	return q.with(ctx, func(conn *pgx.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) (err error) {
			c.Note, err = q.note(ctx, tx, *c, replayed)
			return err
		})
	})
}

// give hands a chunk back: the databases that have it now are no longer pending,
// and it is done if none is left. It does nothing to a chunk that another worker
// has taken over.
func (q *queue) give(ctx context.Context, c Chunk, done []string, rows, skipped int64) error {
	const sql = `UPDATE shardctl.chunk c SET pending = ARRAY(SELECT d FROM unnest(c.pending) d WHERE d <> ALL ($5::text[])),
	  state = CASE WHEN c.pending <@ $5::text[] THEN 'done' ELSE 'todo' END, done_at = CASE WHEN c.pending <@ $5::text[] THEN clock_timestamp() END,
	  note = CASE WHEN c.pending <@ $5::text[] THEN note END,
	  rows = greatest(rows, $6), skipped = greatest(skipped, $7), worker = NULL, backend_pid = NULL, backend_start = NULL, heartbeat_at = NULL
	WHERE migration = $1 AND plan = $2 AND table_no = $3 AND no = $4 AND worker = $8`
	q.hold(c, false)
	return q.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, q.migration(), c.Plan, c.Table.No, c.No, notNil(done), rows, skipped, q.worker)
		if err != nil {
			return fmt.Errorf("hand back %s: %w", c, err)
		}
		return nil
	})
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
