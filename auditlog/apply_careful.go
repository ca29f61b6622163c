package auditlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// careful applies staged rows after they failed as a whole: it finds the rows
// that cannot be applied, and applies the others.
type careful struct {
	tx     pgx.Tx
	failed []failure // in the order in which they failed
	rows   [3]int64  // affected, by action
}

// failure is one staged row that a statement could not apply.
type failure struct {
	statement statement
	tid       string
	err       error
}

// run applies the statements; c.failed then holds the rows that are left.
func (c *careful) run(ctx context.Context, statements []statement) error {
	for _, s := range statements {
		err := c.whole(ctx, s)
		if err == nil {
			continue
		}
		if !own(err) || s.action == other {
			return err
		}
		if err := c.part(ctx, s); err != nil {
			return err
		}
	}
	return c.again(ctx)
}

// part applies a statement page by page.
func (c *careful) part(ctx context.Context, s statement) error {
	for after := "(0,0)"; ; {
		tids, err := c.tids(ctx, s, after)
		if err != nil || len(tids) == 0 {
			return err
		}
		if err := c.bisect(ctx, s, tids); err != nil {
			return err
		}
		after = tids[len(tids)-1]
	}
}

// tidPage bounds how many staged rows are listed at once.
const tidPage = 20_000

// whole tries a statement over all its rows. Rows that exchange unique values
// pass when all old ones are gone before the first new one comes, where no action of a
// foreign key fires.
func (c *careful) whole(ctx context.Context, s statement) error {
	err := c.try(ctx, s.action, s.text())
	if s.action == write && clashes(err) && !s.staged.stays {
		if c.try(ctx, write, s.remove(s.where), s.insert(s.where)) == nil {
			return nil
		}
	}
	return err
}

// try runs statements under a savepoint.
func (c *careful) try(ctx context.Context, a action, statements ...string) error {
	all := append(append([]string{"SAVEPOINT careful"}, statements...), "RELEASE SAVEPOINT careful")
	rows, err := runAll(ctx, c.tx, all)
	if err == nil {
		c.rows[a] += rows[len(rows)-2]
		return nil
	}
	return errors.Join(err, c.back(ctx, err))
}

// back returns to the savepoint, if the session is still there.
func (c *careful) back(ctx context.Context, cause error) error {
	if postgres.SQLState(cause) == "" {
		return nil
	}
	_, err := runAll(ctx, c.tx, []string{"ROLLBACK TO SAVEPOINT careful", "RELEASE SAVEPOINT careful"})
	return err
}

// tids lists the next staged rows that a statement is about, in their order.
func (c *careful) tids(ctx context.Context, s statement, after string) ([]string, error) {
	sql := fmt.Sprintf("SELECT s.ctid::text FROM %s s WHERE %s AND s.ctid > '%s' ORDER BY s.ctid LIMIT %d", s.staged.stage.name, s.where, after, tidPage)
	rows, err := c.tx.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return nil, fmt.Errorf("list staged rows: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// bisect applies the rows it can and collects the others.
func (c *careful) bisect(ctx context.Context, s statement, tids []string) error {
	if len(tids) == 0 {
		return nil
	}
	where := fmt.Sprintf("%s AND s.ctid >= '%s' AND s.ctid <= '%s'", s.where, tids[0], tids[len(tids)-1])
	err := c.try(ctx, s.action, s.sql(where))
	switch {
	case err == nil:
		return nil
	case !own(err):
		return err
	case len(tids) == 1:
		c.failed = append(c.failed, failure{statement: s, tid: tids[0], err: err})
		return nil
	}
	half := len(tids) / 2
	if err := c.bisect(ctx, s, tids[:half]); err != nil {
		return err
	}
	return c.bisect(ctx, s, tids[half:])
}

// again tries the failed rows once more as long as one of them passes: what
// stood in their way may be gone. Then those that clash are exchanged as a set.
func (c *careful) again(ctx context.Context) error {
	for passed := true; passed && len(c.failed) > 0; {
		failed := c.failed
		c.failed = nil
		for _, f := range failed {
			if err := c.bisect(ctx, f.statement, []string{f.tid}); err != nil {
				return err
			}
		}
		passed = len(c.failed) < len(failed)
	}
	for _, group := range byStatement(c.failed) {
		if s := group[0].statement; s.action == write && clashes(group[0].err) && !s.staged.stays {
			if err := c.exchange(ctx, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// byStatement groups failures of one statement.
func byStatement(failed []failure) [][]failure {
	var out [][]failure
	for i, f := range failed {
		if i > 0 && f.statement.where == failed[i-1].statement.where && f.statement.staged == failed[i-1].statement.staged {
			out[len(out)-1] = append(out[len(out)-1], f)
			continue
		}
		out = append(out, []failure{f})
	}
	return out
}

// exchange deletes a set of rows and inserts those of them that can be. The
// stored version of a row that cannot be inserted stays if it is in nobody's way.
func (c *careful) exchange(ctx context.Context, set []failure) error {
	s := set[0].statement
	bad, err := c.trial(ctx, set)
	if err != nil {
		return err
	}
	good := without(set, bad)
	if len(good) == 0 {
		return nil
	}
	goodOnes := s.where + " AND " + among(good)
	err = c.try(ctx, write, s.remove(goodOnes), s.insert(goodOnes))
	if own(err) {
		err = c.try(ctx, write, s.remove(s.where+" AND "+among(set)), s.insert(goodOnes))
	}
	if own(err) {
		return nil // none of them passes; they stay failed
	}
	if err != nil {
		return err
	}
	c.failed = without(c.failed, good)
	return nil
}

// trial finds the rows of a set that cannot be inserted even when all stored
// versions of the set are gone. It leaves nothing behind.
func (c *careful) trial(ctx context.Context, set []failure) (bad []failure, err error) {
	s := set[0].statement
	sp, err := c.tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("savepoint: %w", err)
	}
	try := &careful{tx: sp}
	err = try.try(ctx, remove, s.remove(s.where+" AND "+among(set)))
	for i := 0; err == nil && i < len(set); i++ {
		one := try.try(ctx, write, s.insert(s.where+" AND "+among(set[i:i+1])))
		if own(one) {
			bad = append(bad, set[i])
		} else {
			err = one
		}
	}
	if own(err) {
		bad, err = set, nil // the stored ones cannot be deleted
	}
	return bad, errors.Join(err, sp.Rollback(ctx))
}

// among is the condition that a staged row is one of those.
func among(set []failure) string {
	tids := make([]string, len(set))
	for i, f := range set {
		tids[i] = `"` + f.tid + `"`
	}
	return "s.ctid = ANY ('{" + strings.Join(tids, ",") + "}'::tid[])"
}

func without(set, drop []failure) []failure {
	gone := map[string]bool{}
	for _, f := range drop {
		gone[f.statement.staged.stage.name+f.statement.where+f.tid] = true
	}
	var out []failure
	for _, f := range set {
		if !gone[f.statement.staged.stage.name+f.statement.where+f.tid] {
			out = append(out, f)
		}
	}
	return out
}
