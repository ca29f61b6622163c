package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Role is what a lease is for. One process at a time has each.
type Role string

// The roles.
const (
	Operator Role = "operator" // prepare, install, cutover, rollback, complete, abort, topology push
	Applier  Role = "applier"  // catchup
	Verifier Role = "verifier" // verify
)

const (
	// leaseStale is after how long without a heartbeat a holder counts as hung.
	leaseStale = 15 * time.Second
	// leaseBeat leaves room for several missed beats before the lease is stale.
	leaseBeat = 3 * time.Second
)

// Lease is the right to act in a role: a session advisory lock on a direct
// connection of its own, plus a row that names the holder. If the session ends,
// the server gives the lock to the next one at once.
type Lease struct {
	Migration string
	Role      Role
	Term      int64

	conn *pgx.Conn
	stop context.CancelFunc
	lost chan struct{} // closed by the heartbeat when the session or the row is gone
	done chan struct{} // closed when the heartbeat has ended
	once sync.Once
	rate atomic.Pointer[float64]
}

// Acquire takes a role's lease under a new term, from a holder whose heartbeat is
// older than 15 s too: its backend is terminated first. A live holder: a
// *migrate.Failure with exit 5 that names it.
func Acquire(ctx context.Context, source postgres.Target, migration string, role Role) (*Lease, error) {
	conn, err := postgres.Connect(ctx, source, string(role)+" lease")
	if err != nil {
		return nil, err
	}
	if err := refuseStandby(ctx, conn); err != nil {
		postgres.CloseQuietly(ctx, conn)
		return nil, err
	}
	term, err := take(ctx, conn, migration, role)
	if err != nil {
		postgres.CloseQuietly(ctx, conn)
		return nil, err
	}
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Lease{Migration: migration, Role: role, Term: term, conn: conn, stop: stop, lost: make(chan struct{}), done: make(chan struct{})}
	go l.beat(beat)
	return l, nil
}

// refuseStandby says so where no lease can be had because the server takes no writes.
func refuseStandby(ctx context.Context, q postgres.Querier) error {
	var standby bool
	if err := q.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return fmt.Errorf("ask whether the source is a standby: %w", err)
	}
	if standby {
		return migrate.Refuse("source.standby", "source", "the server is a standby: it is in recovery and takes no writes", "name the primary in source.dsn, or promote the server")
	}
	return nil
}

// Lost is closed when the lease is no longer ours.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Context gives a context that ends when the lease is lost.
func (l *Lease) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-l.lost:
			cancel(fmt.Errorf("%s lease of %s lost: %w", l.Role, l.Migration, ErrTerm))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Release gives the lease back; it may be called twice.
func (l *Lease) Release(ctx context.Context) {
	l.once.Do(func() {
		l.stop()
		<-l.done
		ctx, cancel := postgres.Cleanup(ctx)
		defer cancel()
		// Only our own row: a successor may have taken the role already.
		_, _ = l.conn.Exec(ctx, "DELETE FROM shardctl.lease WHERE migration = $1 AND role = $2 AND term = $3", l.Migration, l.Role, l.Term)
		// The server ends a session a moment after it was closed: the next command would be refused.
		_, _ = l.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", leaseName(l.Migration, l.Role))
		postgres.CloseQuietly(ctx, l.conn)
	})
}

// NoteRate keeps how fast the holder works, in rows a second, for the next heartbeat
// to tell. 0 is not known.
func (l *Lease) NoteRate(rate float64) {
	if rate > 0 {
		l.rate.Store(&rate)
	}
}

func (l *Lease) beat(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(leaseBeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		const sql = `UPDATE shardctl.lease SET heartbeat_at = clock_timestamp(), rows_per_s = $4 WHERE migration = $1 AND role = $2 AND term = $3`
		tag, err := l.conn.Exec(ctx, sql, l.Migration, l.Role, l.Term, l.rate.Load())
		if ctx.Err() != nil {
			return
		}
		if err != nil || tag.RowsAffected() == 0 {
			close(l.lost)
			return
		}
	}
}

func take(ctx context.Context, conn *pgx.Conn, migration string, role Role) (int64, error) {
	deadline := time.Now().Add(leaseStale)
	for {
		got, err := tryTake(ctx, conn, migration, role)
		if err != nil {
			return 0, err
		}
		if got {
			return writeLease(ctx, conn, migration, role)
		}
		if err := evictOrRefuse(ctx, conn, migration, role); err != nil {
			return 0, err
		}
		if time.Now().After(deadline) {
			return 0, heldBy(role, nil)
		}
	}
}

func tryTake(ctx context.Context, conn *pgx.Conn, migration string, role Role) (got bool, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", leaseName(migration, role)).Scan(&got)
	if err != nil {
		return false, fmt.Errorf("take the %s lease of %s: %w", role, migration, err)
	}
	return got, nil
}

func leaseName(migration string, role Role) string {
	return "shardctl lease " + migration + " " + string(role)
}

// evictOrRefuse terminates a holder that hangs, or names a live one in its error.
func evictOrRefuse(ctx context.Context, conn *pgx.Conn, migration string, role Role) error {
	h, err := Holder(ctx, conn, migration, role)
	if errors.Is(err, ErrNotFound) {
		// The lock is held but its row is not written yet, or just removed.
		return heldBy(role, nil)
	}
	if err != nil {
		return err
	}
	if !h.Stale() {
		return heldBy(role, h)
	}
	return postgres.TerminateBackend(ctx, conn, h.Backend)
}

// String tells who it is, and when it was last heard of.
func (h *LeaseHolder) String() string {
	return fmt.Sprintf("pid %d of %s on %s, last heard of %s ago", h.Who.PID, h.Who.OSUser, h.Who.Host, h.Age.Round(time.Second))
}

func heldBy(role Role, h *LeaseHolder) error {
	who := "a process that has just taken it"
	if h != nil {
		who = h.String()
	}
	return &migrate.Failure{Code: "lease.held", Object: "lease " + string(role), Message: "another process holds it: " + who,
		Hint: "wait for it or stop it, then run the command again", Exit: migrate.ExitLeaseHeld}
}

func writeLease(ctx context.Context, conn *pgx.Conn, migration string, role Role) (int64, error) {
	backend, err := postgres.ReadBackend(ctx, conn)
	if err != nil {
		return 0, err
	}
	term, err := NextTerm(ctx, conn)
	if err != nil {
		return 0, err
	}
	w := Myself()
	const sql = `INSERT INTO shardctl.lease (migration, role, host, pid, os_user, backend_pid, backend_start, term) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
	ON CONFLICT (migration, role) DO UPDATE SET host = excluded.host, pid = excluded.pid, os_user = excluded.os_user, backend_pid = excluded.backend_pid,
	backend_start = excluded.backend_start, term = excluded.term, heartbeat_at = clock_timestamp(), rows_per_s = NULL`
	if _, err := conn.Exec(ctx, sql, migration, role, w.Host, w.PID, w.OSUser, backend.PID, backend.Start, term); err != nil {
		return 0, fmt.Errorf("write the %s lease of %s: %w", role, migration, err)
	}
	return term, nil
}

// LeaseHolder is who has a role.
type LeaseHolder struct {
	Who     Who
	Backend postgres.Backend
	Term    int64
	Age     time.Duration // since the last heartbeat
}

// Stale reports whether the holder counts as hung: its lease may be taken.
func (h *LeaseHolder) Stale() bool { return h.Age >= leaseStale }

// Holder reads who has a role. ErrNotFound: nobody, or a holder whose session is gone.
func Holder(ctx context.Context, q postgres.Querier, migration string, role Role) (*LeaseHolder, error) {
	const sql = `SELECT l.os_user, l.host, l.pid, l.backend_pid, l.backend_start, l.term, clock_timestamp() - l.heartbeat_at
	FROM shardctl.lease l JOIN pg_stat_activity a ON a.pid = l.backend_pid AND a.backend_start = l.backend_start
	WHERE l.migration = $1 AND l.role = $2`
	h := &LeaseHolder{}
	err := q.QueryRow(ctx, sql, migration, role).Scan(&h.Who.OSUser, &h.Who.Host, &h.Who.PID, &h.Backend.PID, &h.Backend.Start, &h.Term, &h.Age)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s lease of %s: %w", role, migration, err)
	}
	return h, nil
}
