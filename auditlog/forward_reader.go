package auditlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/migrate"
)

// readerSettings spare the source: no parallel workers for a tick.
const readerSettings = `SET max_parallel_workers_per_gather = 0; SET work_mem = '16MB'`

// lockTables is the first statement of a tick. The tables are locked before
// anything takes the snapshot: a table that ALTER TABLE, TRUNCATE or a repack
// rewrites after an older snapshot reads as empty in it, and its rows would be taken
// for deleted. The server ends a tick whose process has stopped: no snapshot of ours
// may keep the other side from vacuuming.
const lockTables = `SET LOCAL row_security = off; SET LOCAL idle_in_transaction_session_timeout = '60s'; SET LOCAL lock_timeout = '500ms'; LOCK TABLE %s IN ACCESS SHARE MODE; SET LOCAL lock_timeout = 0`

// lockTries bounds how often one tick asks for its tables before it gives way.
const lockTries = 20

// reader is two sessions on the side that owns a log: one reads in a snapshot, the
// other commits markers meanwhile.
type reader struct {
	a      *Applier
	log    link
	mark   link
	id     postgres.Identity
	survey *surveyor
	watch  *Watch
	limit  int // entries of one segment in a batch, by how long the last ones took
}

// newReader makes a reader of the source.
func newReader(a *Applier) *reader {
	return makeReader(a, a.cfg.Source, SourceSide(a.cfg.Layout), a.plan.tables)
}

func makeReader(a *Applier, target postgres.Target, side Side, tables []*tablePlan) *reader {
	r := &reader{a: a, survey: newSurveyor(a.plan, tables), watch: NewWatch(side), limit: a.cfg.Batch}
	r.log = link{target: target, purpose: "catchup read", opened: r.identify}
	r.mark = link{target: target, purpose: "catchup marker"}
	return r
}

func (r *reader) close(ctx context.Context) {
	r.log.close(ctx)
	r.mark.close(ctx)
}

// identify makes sure that the session is on a server that takes markers, and that its
// log is filled: one that is not has nothing new either.
func (r *reader) identify(ctx context.Context, conn *pgx.Conn) (err error) {
	if r.id, err = postgres.ReadIdentity(ctx, conn); err != nil {
		return err
	}
	if r.id.Standby {
		return migrate.Broken("source.standby", r.log.target.Name, "it is a standby", "give the DSN of the primary", nil)
	}
	if _, err := conn.Exec(ctx, readerSettings); err != nil {
		return fmt.Errorf("set up the reader's session: %w", err)
	}
	_, err = r.watch.Check(ctx, conn)
	return err
}

// open begins a tick's transaction on the log's side and takes its snapshot.
func (r *reader) open(ctx context.Context, tables []string) (pgx.Tx, present, error) {
	conn, err := r.log.get(ctx)
	if err != nil {
		return nil, present{}, err
	}
	for try := 1; ; try++ {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return nil, present{}, fmt.Errorf("begin: %w", err)
		}
		_, err = runAll(ctx, tx, []string{fmt.Sprintf(lockTables, strings.Join(tables, ", "))})
		if err == nil {
			now, err := readPresent(ctx, tx)
			if err != nil {
				r.end(ctx, tx)
			}
			return tx, now, err
		}
		r.end(ctx, tx)
		if postgres.SQLState(err) != "55P03" || try == lockTries {
			return nil, present{}, fmt.Errorf("lock the tables of a tick: %w", err)
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return nil, present{}, err
		}
	}
}

// end ends a tick's transaction; nothing was written in it.
func (r *reader) end(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil {
		r.log.close(ctx)
	}
}

const (
	// snapshotLong and snapshotShort are between how long a tick may hold its
	// snapshot: five seconds are the most, and a batch takes as long as the slowest
	// server makes it.
	snapshotLong  = 2 * time.Second
	snapshotShort = 500 * time.Millisecond
	smallestBatch = 500
)

// pace fits the next batch to how long this one's snapshot was held.
func (r *reader) pace(held time.Duration) {
	switch {
	case held > snapshotLong:
		r.limit = max(r.limit/2, min(smallestBatch, r.a.cfg.Batch))
	case held < snapshotShort:
		r.limit = min(r.limit*2, r.a.cfg.Batch)
	}
}
