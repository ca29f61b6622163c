package auditlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
)

// applyLimits bound a tick's transaction by the server: a process that stops in
// the middle of it holds its locks for no longer, and a lock that does not come is
// asked for again later.
const applyLimits = "SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '15s'"

// application is one database's part of a tick, from staged rows to the commit.
type application struct {
	db      *database
	in      *intake
	tx      pgx.Tx
	next    store.Position
	cut     bool
	retried []parked // a retry: these keys alone, the position stays
	retry   bool
	parks   bool // rows were put in quarantine
	tick    Tick
}

// apply brings one database to the tick's snapshot, in one transaction.
func (ap *application) apply(ctx context.Context) error {
	if err := ap.in.begin(ctx); err != nil {
		return err
	}
	ap.tx = ap.in.tx
	if _, err := ap.tx.Conn().PgConn().Exec(ctx, applyLimits).ReadAll(); err != nil {
		return fmt.Errorf("bound the tick: %w", err)
	}
	if err := ap.permit(ctx); err != nil {
		return err
	}
	if err := ap.prepare(ctx); err != nil {
		return err
	}
	if err := ap.write(ctx); err != nil {
		return err
	}
	if err := ap.finish(ctx); err != nil {
		return err
	}
	if !ap.retry {
		ap.db.committed.ask(store.Forward, ap.next.Marker)
	}
	if err := ap.tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit tick on %s: %w", ap.db.name(), err)
	}
	ap.in.tx = nil
	return nil
}

// permit takes the control row and the tables in the one order, and makes sure
// that this applier may write.
func (ap *application) permit(ctx context.Context) error {
	db := ap.db
	c, err := store.ShareControl(ctx, ap.tx, db.a.migration())
	switch {
	case err != nil:
		return err
	case c.Term != db.a.cfg.Term:
		return fmt.Errorf("tick on %s: term %d, ours is %d: %w", db.name(), c.Term, db.a.cfg.Term, store.ErrTerm)
	case c.Held:
		return fmt.Errorf("tick on %s: %w", db.name(), ErrHeld)
	case db.moved != (c.Owner != store.OwnerSource):
		return fmt.Errorf("tick on %s: %w", db.name(), errMoved)
	}
	pos, err := store.LoadPosition(ctx, ap.tx, db.a.migration(), db.name(), store.Forward)
	if err != nil {
		return err
	}
	if pos.Marker != db.pos.Marker || pos.Snapshot != db.pos.Snapshot {
		return fmt.Errorf("tick on %s: its position was moved by another: %w", db.name(), errMoved)
	}
	for _, t := range db.a.plan.tables {
		if ap.in.has(t.No) {
			if err := store.LockTableExclusive(ctx, ap.tx, db.a.migration(), t.No); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *intake) has(table int) bool {
	for _, st := range in.staged {
		if st.stage.table.No == table {
			return true
		}
	}
	return false
}

// prepare takes out of the staged rows what is not to be applied now.
func (ap *application) prepare(ctx context.Context) error {
	var statements []string
	for _, st := range ap.in.staged {
		if ap.db.parked > 0 && !ap.retry {
			statements = append(statements, ap.db.ward().skip(st.stage))
		}
	}
	if _, err := runAll(ctx, ap.tx, statements); err != nil {
		return fmt.Errorf("leave out what is in quarantine: %w", err)
	}
	if !ap.db.moved {
		return nil
	}
	return ap.keepReferenced(ctx)
}

// write applies the staged rows: all at once, or, if that fails, with care.
func (ap *application) write(ctx context.Context) error {
	statements := ap.statements()
	texts := []string{"SAVEPOINT staged"}
	for _, s := range statements {
		texts = append(texts, s.text())
	}
	rows, err := runAll(ctx, ap.tx, texts)
	if err == nil {
		for i, s := range statements {
			ap.count(s.action, rows[i+1])
		}
		return nil
	}
	if !own(err) {
		return fmt.Errorf("apply to %s: %w", ap.db.name(), err)
	}
	for range foreignKeyPasses {
		if _, err := runAll(ctx, ap.tx, []string{"ROLLBACK TO SAVEPOINT staged"}); err != nil {
			return err
		}
		done, err := ap.carefully(ctx, statements)
		if err != nil {
			return fmt.Errorf("apply to %s: %w", ap.db.name(), err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("apply to %s: foreign keys are still violated after %d passes", ap.db.name(), foreignKeyPasses)
}

// foreignKeyPasses bounds how often rows that violate deferred foreign keys are
// taken out: each pass takes the children of those before.
const foreignKeyPasses = 20

// statements are those of the tables, with truncates first and the check of
// deferred constraints last.
func (ap *application) statements() []statement {
	var out []statement
	if !ap.db.replica {
		out = append(out, plainStatement("SET CONSTRAINTS ALL DEFERRED"))
	}
	for _, st := range ap.in.staged {
		if st.wipe == nil || st.singly {
			continue
		}
		for _, at := range ap.db.a.plan.spots(st.stage.table, ap.db.place) {
			for _, sql := range st.wipe.statements(st.stage.table, at) {
				out = append(out, plainStatement(sql))
			}
		}
	}
	out = append(out, ap.in.statements(ap.db.a.plan, ap.db.place)...)
	if !ap.db.replica {
		out = append(out, plainStatement("SET CONSTRAINTS ALL IMMEDIATE"))
	}
	return out
}

func (ap *application) count(a action, rows int64) {
	switch a {
	case write:
		ap.tick.Rows += rows
	case remove:
		ap.tick.Deletes += rows
	}
}

// carefully applies what can be applied and keeps the rest in quarantine. It is not
// done where rows that violate a deferred foreign key were taken out.
func (ap *application) carefully(ctx context.Context, statements []statement) (done bool, err error) {
	c := &careful{tx: ap.tx}
	last := len(statements)
	if !ap.db.replica {
		last--
	}
	if err := c.run(ctx, statements[:last]); err != nil {
		return false, err
	}
	if ap.cut {
		if err := ap.beyondCut(ctx, c.failed); err != nil {
			return false, err
		}
	}
	if last < len(statements) {
		err := c.try(ctx, other, statements[last].text())
		if own(err) {
			return false, ap.keepViolators(ctx, c.failed, err)
		}
		if err != nil {
			return false, err
		}
	}
	ap.tick.Rows, ap.tick.Deletes = c.rows[write], c.rows[remove]
	return true, ap.parkFailed(ctx, c.failed)
}

func (ap *application) parkFailed(ctx context.Context, failed []failure) error {
	ap.parks = ap.parks || len(failed) > 0
	var statements []string
	for _, f := range failed {
		statements = append(statements, ap.db.ward().park(f.statement.staged.stage, among([]failure{f}), reasonOf(f.err), errorText(f.err)))
	}
	if _, err := runAll(ctx, ap.tx, statements); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	return nil
}

// finish notes what was refused, the deletes and the position.
func (ap *application) finish(ctx context.Context) error {
	db, p := ap.db, ap.db.a.plan
	var statements []string
	for _, st := range ap.in.staged {
		if st.refused {
			statements = append(statements, db.ward().park(st.stage, fmt.Sprintf("s.shardctl_cur = %d", refused), reasonNoKey, noKeyMessage(st.stage.table)))
		}
		spots := p.spots(st.stage.table, db.place)
		statements = append(statements, st.tombstones(db.a.migration(), spots, ap.next.Tick)...)
		if st.wipe != nil {
			statements = append(statements, tableTombstones(db.a.migration(), st.stage.table, spots, ap.next.Tick))
		}
	}
	if _, err := runAll(ctx, ap.tx, statements); err != nil {
		return fmt.Errorf("note the tick's deletes: %w", err)
	}
	var err error
	if ap.retry {
		if err = db.ward().release(ctx, ap.tx, ap.retried); err != nil {
			return err
		}
	} else if err = store.SavePosition(ctx, ap.tx, db.a.migration(), db.name(), store.Forward, ap.next); err != nil {
		return err
	}
	if db.parked > 0 || ap.retry || ap.mayPark() {
		ap.tick.Parked, err = db.ward().count(ctx, ap.tx)
	}
	return err
}

// mayPark reports whether this tick may have added to the quarantine.
func (ap *application) mayPark() bool {
	for _, st := range ap.in.staged {
		if st.refused {
			return true
		}
	}
	return ap.parks
}
