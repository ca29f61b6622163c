package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// restitution applies a tick back to the source, in one transaction, while the
// database's control row is shared in another.
type restitution struct {
	b    *batch
	tx   pgx.Tx // on the source
	tick Tick
}

func (r *restitution) apply(ctx context.Context) error {
	v := r.b.v
	hold, err := v.hold.get(ctx)
	if err != nil {
		return err
	}
	held, err := hold.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		if endQuietly(ctx, held) != nil {
			v.hold.close(ctx)
		}
	}()
	if err := r.permit(ctx, held); err != nil {
		return err
	}
	if err := r.b.in.begin(ctx); err != nil {
		return err
	}
	r.tx = r.b.in.tx
	if err := r.permitSource(ctx); err != nil {
		return err
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	if err := r.finish(ctx); err != nil {
		return err
	}
	if !r.b.retry() {
		v.db.committed.ask(store.Reverse, r.b.next.Marker)
	}
	if err := r.tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit the tick back of %s: %w", v.db.name(), err)
	}
	r.b.in.tx = nil
	return nil
}

// permit shares the database's control row, so that nobody closes, opens or takes
// over meanwhile.
func (r *restitution) permit(ctx context.Context, held pgx.Tx) error {
	v := r.b.v
	if _, err := runAll(ctx, held, []string{"SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '60s'"}); err != nil {
		return fmt.Errorf("bound the tick: %w", err)
	}
	c, err := store.ShareControl(ctx, held, v.db.a.migration())
	switch {
	case err != nil:
		return err
	case c.Term != v.db.a.cfg.Term:
		return fmt.Errorf("tick back of %s: term %d, ours is %d: %w", v.db.name(), c.Term, v.db.a.cfg.Term, store.ErrTerm)
	case c.Owner != v.db.name():
		return fmt.Errorf("tick back of %s: its shards are the source's: %w", v.db.name(), errMoved)
	}
	for _, st := range r.b.in.staged {
		if err := store.LockTableExclusive(ctx, held, v.db.a.migration(), st.stage.table.No); err != nil {
			return err
		}
	}
	return nil
}

// permitSource shares the source's row of the database and checks the position.
func (r *restitution) permitSource(ctx context.Context) error {
	v := r.b.v
	if _, err := runAll(ctx, r.tx, []string{applyLimits}); err != nil {
		return fmt.Errorf("bound the tick: %w", err)
	}
	o, err := store.ShareOwnership(ctx, r.tx, v.db.a.migration(), v.db.name())
	switch {
	case err != nil:
		return err
	case o.Term != v.db.a.cfg.Term:
		return fmt.Errorf("tick back of %s: term %d on the source, ours is %d: %w", v.db.name(), o.Term, v.db.a.cfg.Term, store.ErrTerm)
	case o.Owner != v.db.name():
		return fmt.Errorf("tick back of %s: the source says that it owns the shards: %w", v.db.name(), errMoved)
	}
	pos, err := store.LoadPosition(ctx, r.tx, v.db.a.migration(), v.db.name(), store.Reverse)
	if err != nil {
		return err
	}
	if pos.Marker != v.pos.Marker || pos.Snapshot != v.pos.Snapshot {
		return fmt.Errorf("tick back of %s: its position was moved by another: %w", v.db.name(), errMoved)
	}
	return nil
}

// write applies the staged rows: set by set, or, if that fails, with care.
func (r *restitution) write(ctx context.Context) error {
	var first []string
	if !r.b.v.replica {
		// Each row is to fail by itself, not the commit.
		first = append(first, "SET CONSTRAINTS ALL IMMEDIATE")
	}
	for _, st := range r.b.in.staged {
		if r.b.v.parked > 0 && !r.b.retry() {
			first = append(first, r.b.v.ward().skip(st.stage))
		}
	}
	if _, err := runAll(ctx, r.tx, append(first, "SAVEPOINT staged")); err != nil {
		return fmt.Errorf("leave out what is in quarantine: %w", err)
	}
	err := r.fast(ctx)
	if err == nil || !own(err) {
		return err
	}
	if _, err := runAll(ctx, r.tx, []string{"ROLLBACK TO SAVEPOINT staged"}); err != nil {
		return err
	}
	return r.carefully(ctx)
}

// fast deletes with children first, then writes with parents first. Where fewer
// rows were written than are there, the others are looked at.
func (r *restitution) fast(ctx context.Context) error {
	r.tick.Rows, r.tick.Deletes = 0, 0
	deletes := r.deletes()
	texts := make([]string, len(deletes))
	for i, s := range deletes {
		texts[i] = s.text()
	}
	rows, err := runAll(ctx, r.tx, texts)
	if err != nil {
		return fmt.Errorf("apply back: %w", err)
	}
	for _, n := range rows {
		r.tick.Deletes += n
	}
	for _, st := range r.ordered() {
		n, err := r.writeSet(ctx, r.writes(st, false))
		if err != nil {
			return err
		}
		if n < r.b.found[st] || st.twice {
			if err := r.settle(ctx, st); err != nil {
				return err
			}
			if n, err = r.writeSet(ctx, append(r.writes(st, true), plainStatement(r.left(st, nil)))); err != nil {
				return err
			}
		}
		r.tick.Rows += n
	}
	return nil
}

// writeSet runs the statements of one table and gives the rows written.
func (r *restitution) writeSet(ctx context.Context, statements []statement) (n int64, err error) {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.text()
	}
	rows, err := runAll(ctx, r.tx, texts)
	if err != nil {
		return 0, fmt.Errorf("apply back: %w", err)
	}
	for i, s := range statements {
		if s.action == write {
			n += rows[i]
		}
	}
	return n, nil
}

// carefully applies what can be applied; the rest is parked.
func (r *restitution) carefully(ctx context.Context) error {
	c := &careful{tx: r.tx}
	if err := c.run(ctx, r.deletes()); err != nil {
		return fmt.Errorf("apply back: %w", err)
	}
	for _, st := range r.ordered() {
		if err := r.settle(ctx, st); err != nil {
			return err
		}
		if err := c.run(ctx, r.writes(st, true)); err != nil {
			return fmt.Errorf("apply back: %w", err)
		}
		if _, err := runAll(ctx, r.tx, []string{r.left(st, c.failed)}); err != nil {
			return fmt.Errorf("apply back: %w", err)
		}
	}
	r.tick.Rows, r.tick.Deletes = c.rows[write], c.rows[remove]
	var statements []string
	for _, f := range c.failed {
		statements = append(statements, r.b.v.ward().park(f.statement.staged.stage, among([]failure{f}), reasonOf(f.err), errorText(f.err)))
	}
	if _, err := runAll(ctx, r.tx, statements); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	return nil
}

// ordered are the staged tables, parents first.
func (r *restitution) ordered() []*staged {
	var out []*staged
	for _, t := range r.b.v.db.a.plan.order {
		for _, st := range r.b.in.staged {
			if st.stage.table == t {
				out = append(out, st)
			}
		}
	}
	return out
}

func (r *restitution) finish(ctx context.Context) error {
	v := r.b.v
	var statements []string
	for _, st := range r.b.in.staged {
		statements = append(statements, v.ward().park(st.stage, fmt.Sprintf("s.shardctl_cur = %d", barred), reasonForeign,
			"the source's row of this key is not at this location, or its key leads elsewhere"))
	}
	if _, err := runAll(ctx, r.tx, statements); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if r.b.retry() {
		if err := v.ward().release(ctx, r.tx, r.b.retried); err != nil {
			return err
		}
	} else if err := store.SavePosition(ctx, r.tx, v.db.a.migration(), v.db.name(), store.Reverse, r.b.next); err != nil {
		return err
	}
	var err error
	r.tick.Parked, err = v.ward().count(ctx, r.tx)
	return err
}

func endQuietly(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	return tx.Rollback(ctx)
}
