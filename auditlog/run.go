package auditlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// RunOptions say when Run ends by itself.
type RunOptions struct {
	Once     bool          // when all databases are level with the moment of the call
	UntilLag time.Duration // when no database is further behind; 0 is never
}

const (
	// handoverGrace is how long a tick under way may go on after a handover was
	// asked for: the asker waits two seconds.
	handoverGrace = time.Second
	requestPoll   = 100 * time.Millisecond
	operatorPoll  = 200 * time.Millisecond
	// leaseWait is how long a taken-back lease may still be held by the operator that
	// is just ending.
	leaseWait = 5 * time.Second
)

// errHandover ends a tenure because an operator asked for the lease.
var errHandover = errors.New("an operator takes over")

// errReached ends a tenure because what Run was to reach is reached.
var errReached = errors.New("reached")

// Run is the applier's life: it takes the lease, brings each database forward or
// the source back as the owners of the shards say, hands the lease over to an
// operator who asks and takes it back under a new term. It ends with its context,
// with what the options say, or with an error that does not pass by itself. The
// applier must not be used by others meanwhile.
func (a *Applier) Run(ctx context.Context, o RunOptions) error {
	a.retryPause = time.Second
	goal := newGoal(a, o, time.Now())
	started := false
	for wait := newBackoff(); ; {
		err := a.tenure(ctx, goal, &started)
		switch {
		case errors.Is(err, errReached):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errHandover), errors.Is(err, store.ErrTerm):
			if err := a.awaitOperator(ctx); err != nil {
				return err
			}
			wait = newBackoff()
		case started && passing(err):
			a.cfg.Observe(Progress{Kind: Waiting, Err: err, First: err, Tries: wait.tries + 1})
			if err := sleep.For(ctx, wait.next()); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// tenure is the time between taking the lease and giving it up.
func (a *Applier) tenure(ctx context.Context, goal *goal, started *bool) error {
	lease, err := a.acquire(ctx, *started)
	if err != nil {
		return err
	}
	*started = true
	defer lease.Release(ctx)
	defer a.Close(context.WithoutCancel(ctx))
	a.cfg.Term = lease.Term
	side, err := postgres.Connect(ctx, a.cfg.Source, "catchup")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, side)
	if err := a.raiseOwnership(ctx, side); err != nil {
		return err
	}
	a.cfg.Observe(Progress{Kind: TakenOver, Term: lease.Term})
	held, release := lease.Context(ctx)
	defer release()
	err = a.serve(held, lease, goal)
	if !errors.Is(err, errHandover) {
		if cause := context.Cause(held); cause != nil && ctx.Err() == nil {
			return cause // the lease was lost
		}
		return err
	}
	a.cfg.Observe(Progress{Kind: HandingOver, Term: lease.Term})
	a.Close(context.WithoutCancel(ctx))
	lease.Release(ctx)
	if err := store.AnswerHandover(ctx, side, a.migration()); err != nil {
		return err
	}
	return errHandover
}

// acquire takes the lease. One that was ours before may be held a moment longer
// by the operator that is ending.
func (a *Applier) acquire(ctx context.Context, again bool) (*store.Lease, error) {
	deadline := time.Now().Add(leaseWait)
	for {
		lease, err := store.Acquire(ctx, a.cfg.Source, a.migration(), store.Applier)
		if err == nil || !again || migrate.ExitCode(err) != migrate.ExitLeaseHeld || time.Now().After(deadline) {
			return lease, err
		}
		if err := sleep.For(ctx, operatorPoll); err != nil {
			return nil, err
		}
	}
}

// raiseOwnership ends the term of whoever applied before, on the source. A
// database is raised when its first session opens: one that is down must not keep
// the others waiting.
func (a *Applier) raiseOwnership(ctx context.Context, side *pgx.Conn) error {
	for _, db := range a.databases {
		if err := store.RaiseOwnershipTerm(ctx, side, a.migration(), db.name(), a.cfg.Term); err != nil {
			return err
		}
	}
	return nil
}

// awaitOperator waits until no operator is at work. One that asks meanwhile is
// answered: the lease is not ours.
func (a *Applier) awaitOperator(ctx context.Context) error {
	var side *pgx.Conn
	defer func() { postgres.CloseQuietly(ctx, side) }()
	for wait := newBackoff(); ; {
		free, err := a.operatorFree(ctx, &side)
		if free && err == nil {
			return nil
		}
		pause := operatorPoll
		if err != nil {
			if !passing(err) || ctx.Err() != nil {
				return err
			}
			postgres.CloseQuietly(ctx, side)
			side, pause = nil, wait.next()
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

func (a *Applier) operatorFree(ctx context.Context, side **pgx.Conn) (bool, error) {
	if *side == nil || (*side).IsClosed() {
		conn, err := postgres.Connect(ctx, a.cfg.Source, "catchup")
		if err != nil {
			return false, err
		}
		*side = conn
	}
	asked, err := store.HandoverRequested(ctx, *side, a.migration())
	if err != nil {
		return false, err
	}
	if asked {
		if err := store.AnswerHandover(ctx, *side, a.migration()); err != nil {
			return false, err
		}
	}
	h, err := store.Holder(ctx, *side, a.migration(), store.Operator)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for the operator: %w", err)
	}
	return h.Stale(), nil // one that hangs does not keep the log growing
}
