package backfill

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// writer is a worker's session on one database.
type writer struct {
	target     postgres.Target
	migration  string
	generation func(database string) int64 // control.plan as known before any snapshot
	signals    Signals
	conn       *pgx.Conn
	caution    caution
}

// job is one part of a chunk on its way to a database.
type job struct {
	chunk Chunk
	route *route
	part  *part
	last  bool  // the chunk's last part: its transaction writes the ledger
	rows  int64 // of the whole chunk, once it is known
}

// forced are the settings of a writer's session. The lookup of keys must walk
// the key's index whatever the statistics of a table that is being filled say.
// A commit need not wait for the disk: rows and ledger line are lost together, or
// not at all, and the end of the run waits for both.
const forced = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET synchronous_commit = off`

func (w *writer) open(ctx context.Context) error {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	conn, err := connectWriter(ctx, w.target, w.migration, "backfill")
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, forced); err != nil {
		postgres.CloseQuietly(ctx, conn)
		return fmt.Errorf("prepare a session: %w", err)
	}
	w.conn = conn
	return nil
}

// connectWriter opens a session that our triggers skip and that fires no user
// trigger where the role may choose so.
func connectWriter(ctx context.Context, t postgres.Target, migration, purpose string) (*pgx.Conn, error) {
	conn, err := postgres.Connect(ctx, t, purpose)
	if err != nil {
		return nil, err
	}
	if _, err := postgres.BecomeApplier(ctx, conn, migration); err != nil {
		postgres.CloseQuietly(ctx, conn)
		return nil, err
	}
	return conn, nil
}

func (w *writer) close(ctx context.Context) { postgres.CloseQuietly(ctx, w.conn) }

// write brings a part into the database. A key that somebody else committed
// meanwhile makes the transaction start again, and then look for such keys; what
// still violates a unique index after several looks is not the key.
func (w *writer) write(ctx context.Context, j job) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	wary := w.caution.of(j.chunk.Table.No)
	look := wary.look()
	var err error
	for range chunkTries {
		err = postgres.WithTx(ctx, w.conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return w.attempt(ctx, tx, j, look) })
		if postgres.SQLState(err) != "23505" {
			return err
		}
		if !look {
			wary.conflict()
		}
		look = true
	}
	return fmt.Errorf("%w: %w", errConflict, err)
}

// attempt is one transaction; the order of its locks (control row, pruning, table,
// rows) is the same everywhere.
func (w *writer) attempt(ctx context.Context, tx pgx.Tx, j job, look bool) error {
	control, err := store.ShareControl(ctx, tx, w.migration)
	if err != nil {
		return err
	}
	if control.Owner != store.OwnerSource {
		return ownedFailure(control.Database, control.Owner)
	}
	if control.Plan != w.generation(w.target.Name) {
		return errGeneration
	}
	if there, err := w.inLedger(ctx, tx, j.chunk); err != nil || there {
		return err // another worker had it
	}
	if err := w.judgeable(ctx, tx, j.chunk); err != nil {
		return err
	}
	var tombs bool
	if !control.Held {
		if tombs, err = w.guard(ctx, tx, j.chunk); err != nil {
			return err
		}
		look = look || tombs || j.route.version >= 0
	}
	if err := w.copyBins(ctx, tx, j, look, tombs); err != nil {
		return err
	}
	if !j.last {
		return nil
	}
	return w.enter(ctx, tx, j)
}

// errGeneration says that the database's copy began anew since the worker last
// looked: what it read may be older than the held position.
var errGeneration = fmt.Errorf("the database's copy began anew: %w", errAgain)

// judgeable locks the table's pruning out, and refuses a note that can no longer be
// judged: it is older than the tombstones, or than the tick with which the database was
// started anew.
func (w *writer) judgeable(ctx context.Context, tx pgx.Tx, c Chunk) error {
	var through int64
	const pruned = `SELECT through FROM shardctl.pruned WHERE migration = $1 AND table_no = $2 FOR SHARE`
	if err := tx.QueryRow(ctx, pruned, w.migration, c.Table.No).Scan(&through); err != nil {
		return fmt.Errorf("lock pruning of %s: %w", c.Table.Name(), err)
	}
	if c.Note < through {
		return fmt.Errorf("tombstones of %s are pruned through tick %d, the note is %d: %w", c.Table.Name(), through, c.Note, errAgain)
	}
	return nil
}

// guard locks the table's ticks out. It reports whether tombstones later than the note
// exist.
func (w *writer) guard(ctx context.Context, tx pgx.Tx, c Chunk) (tombs bool, err error) {
	if err := store.LockTableShared(ctx, tx, w.migration, c.Table.No); err != nil {
		return false, err
	}
	var truncated bool
	sql := fmt.Sprintf(`SELECT EXISTS (SELECT FROM shardctl.table_tombstone WHERE migration = $1 AND table_no = $2 AND tick > $3), EXISTS (SELECT FROM %s WHERE tick > $3)`,
		tombstones(c.Table, w.migration))
	if err := tx.QueryRow(ctx, sql, w.migration, c.Table.No, c.Note).Scan(&truncated, &tombs); err != nil {
		return false, fmt.Errorf("look for tombstones of %s: %w", c.Table.Name(), err)
	}
	if truncated {
		return false, fmt.Errorf("%s was truncated after tick %d: %w", c.Table.Name(), c.Note, errAgain)
	}
	return tombs, nil
}

func (w *writer) inLedger(ctx context.Context, tx pgx.Tx, c Chunk) (there bool, err error) {
	const sql = `SELECT EXISTS (SELECT FROM shardctl.ledger WHERE migration = $1 AND plan = $2 AND table_no = $3 AND chunk = $4)`
	if err := tx.QueryRow(ctx, sql, w.migration, c.Plan, c.Table.No, c.No).Scan(&there); err != nil {
		return false, fmt.Errorf("read the ledger: %w", err)
	}
	return there, nil
}

func (w *writer) enter(ctx context.Context, tx pgx.Tx, j job) error {
	const sql = `INSERT INTO shardctl.ledger (migration, plan, table_no, chunk, rows, note) VALUES ($1, $2, $3, $4, $5, $6)`
	if _, err := tx.Exec(ctx, sql, w.migration, j.chunk.Plan, j.chunk.Table.No, j.chunk.No, j.rows, j.chunk.Note); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}
