package auditlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/postgres"
)

// foreignKey is a constraint of the side that is written.
type foreignKey struct {
	child, parent string   // quoted
	columns       []string // quoted, of the child
	refers        []string // quoted, of the parent
	equal         []string // OPERATOR(…) between parent and child
	acts          bool     // a deleted parent changes or deletes its children
}

const foreignKeysSQL = `SELECT cn.nspname, c.relname, pn.nspname, p.relname,
  (SELECT array_agg(a.attname::text ORDER BY k.ord) FROM unnest(f.conkey) WITH ORDINALITY k(num, ord) JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.num),
  (SELECT array_agg(a.attname::text ORDER BY k.ord) FROM unnest(f.confkey) WITH ORDINALITY k(num, ord) JOIN pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.num),
  (SELECT array_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname) ORDER BY k.ord) FROM unnest(f.conpfeqop) WITH ORDINALITY k(op, ord) JOIN pg_operator o ON o.oid = k.op JOIN pg_namespace n ON n.oid = o.oprnamespace),
  f.confdeltype IN ('c', 'n', 'd')
FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_class p ON p.oid = f.confrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE f.contype = 'f' AND f.conparentid = 0 AND `

func readForeignKeys(ctx context.Context, q postgres.Querier, where string, args ...any) ([]foreignKey, error) {
	args = append([]any{pgx.QueryExecModeExec}, args...)
	rows, err := q.Query(ctx, foreignKeysSQL+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read foreign keys: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (fk foreignKey, err error) {
		var cs, c, ps, p string
		err = r.Scan(&cs, &c, &ps, &p, &fk.columns, &fk.refers, &fk.equal, &fk.acts)
		fk.child, fk.parent = postgres.Table(cs, c), postgres.Table(ps, p)
		fk.columns, fk.refers = quoteAll(fk.columns), quoteAll(fk.refers)
		return fk, err
	})
}

// refersTo is the condition that a child refers to a parent.
func (fk foreignKey) refersTo(child, parent string) string {
	out := make([]string, len(fk.columns))
	for i := range fk.columns {
		out[i] = fmt.Sprintf("%s.%s %s %s.%s", parent, fk.refers[i], fk.equal[i], child, fk.columns[i])
	}
	return strings.Join(out, " AND ")
}

// keepOut puts staged rows in quarantine and takes them out of the batch.
func (ap *application) keepOut(ctx context.Context, st *staged, where, reason, message string) (int64, error) {
	park := ap.db.ward().park(st.stage, where, reason, message)
	rows, err := runAll(ctx, ap.tx, []string{park, fmt.Sprintf("DELETE FROM %s s WHERE %s", st.stage.name, where)})
	if err != nil {
		return 0, fmt.Errorf("keep rows of %s out: %w", st.stage.table.Name(), err)
	}
	ap.parks = ap.parks || rows[1] > 0
	return rows[1], nil
}

// keepReferenced takes out deletes and key changes of everywhere tables that rows
// of a database with shards of its own refer to: the application owns those rows, and no
// foreign key holds back an applier. In a session in which foreign keys act, a deleted
// parent would take rows of the application's along, and no log would have them: there
// none is deleted to be inserted again.
func (ap *application) keepReferenced(ctx context.Context) error {
	for _, st := range ap.in.staged {
		s := st.stage
		if !s.table.Everywhere() {
			continue
		}
		at := ap.db.a.plan.spots(s.table, ap.db.place)[0]
		if err := ap.stageWiped(ctx, st, at); err != nil {
			return err
		}
		fks, err := readForeignKeys(ctx, ap.tx, "pn.nspname = $1 AND p.relname = $2", at.name, s.table.TargetName())
		if err != nil {
			return err
		}
		for _, fk := range fks {
			goes := fmt.Sprintf("(s.shardctl_cur = %d OR s.shardctl_cur = 0 AND (%s))", nowhere, s.changes(fk))
			if fk.acts && !ap.db.replica {
				st.stays = true
				if s.needsReplace() {
					goes = "true"
				}
			}
			// Who is about to refer to such a row holds it, or waits for us and finds it gone.
			lock := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s s JOIN %s t ON %s WHERE %s FOR UPDATE OF t) x", s.name, at.table, s.same("t"), goes)
			if _, err := runAll(ctx, ap.tx, []string{lock}); err != nil {
				return fmt.Errorf("lock rows of %s that go: %w", s.table.Name(), err)
			}
			where := fmt.Sprintf("EXISTS (SELECT FROM %s t WHERE %s AND %s AND EXISTS (SELECT FROM %s c WHERE %s))", at.table, s.same("t"), goes, fk.child, fk.refersTo("c", "t"))
			if _, err := ap.keepOut(ctx, st, where, reasonReferenced, "rows of "+fk.child+" refer to it"); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageWiped turns a truncate of an everywhere table into deletes of single keys,
// so that those can be kept that rows of the database refer to.
func (ap *application) stageWiped(ctx context.Context, st *staged, at spot) error {
	if st.wipe == nil {
		return nil
	}
	s, t := st.stage, st.stage.table
	values := make([]string, len(t.PK))
	for i, c := range t.PK {
		values[i] = "t." + postgres.Ident(c.Name)
		if s.textual {
			values[i] += "::text"
		}
	}
	for _, emptied := range st.wipe.conditions(t, at) {
		sql := fmt.Sprintf("INSERT INTO %s (shardctl_old, shardctl_cur, %s) SELECT 0, %d, %s FROM %s t WHERE (%s) AND NOT EXISTS (SELECT FROM %[1]s s WHERE %[7]s)",
			s.name, s.keyNames(), nowhere, strings.Join(values, ", "), at.table, emptied, s.same("t"))
		if _, err := runAll(ctx, ap.tx, []string{sql}); err != nil {
			return fmt.Errorf("list what a truncate of %s emptied: %w", t.Name(), err)
		}
	}
	st.deletes[at.loc], st.singly = true, true
	return nil
}

// changes is the condition that a staged row changes what a foreign key refers to.
func (s *stage) changes(fk foreignKey) string {
	out := make([]string, 0, len(fk.refers))
	for _, name := range fk.refers {
		for _, c := range s.columns {
			if c.name == name {
				out = append(out, "t."+name+" IS DISTINCT FROM "+s.expr(c))
			}
		}
	}
	if len(out) == 0 {
		return "false"
	}
	return strings.Join(out, " OR ")
}

// keepViolators takes out the rows for which a deferred foreign key was refused,
// and those that had failed by themselves: the rest is then applied again.
func (ap *application) keepViolators(ctx context.Context, failed []failure, cause error) error {
	var pgErr *pgconn.PgError
	if !errors.As(cause, &pgErr) || pgErr.Code != "23503" {
		return cause
	}
	fks, err := readForeignKeys(ctx, ap.tx, "cn.nspname = $1 AND c.relname = $2 AND f.conname = $3", pgErr.SchemaName, pgErr.TableName, pgErr.ConstraintName)
	if err != nil {
		return err
	}
	// What is kept out here stays out when the next attempt is rolled back.
	if _, err := runAll(ctx, ap.tx, []string{"ROLLBACK TO SAVEPOINT staged", "RELEASE SAVEPOINT staged"}); err != nil {
		return err
	}
	var kept int64
	for _, f := range failed {
		n, err := ap.keepOut(ctx, f.statement.staged, among([]failure{f}), reasonOf(f.err), errorText(f.err))
		if err != nil {
			return err
		}
		kept += n
	}
	for _, fk := range fks {
		n, err := ap.keepFor(ctx, fk, errorText(cause))
		if err != nil {
			return err
		}
		kept += n
	}
	if kept == 0 {
		return cause
	}
	_, err = runAll(ctx, ap.tx, []string{"SAVEPOINT staged"})
	return err
}

// keepFor takes out, for one foreign key, staged children without a parent, and
// deletes of parents that still have children.
func (ap *application) keepFor(ctx context.Context, fk foreignKey, message string) (n int64, err error) {
	p := ap.db.a.plan
	for _, st := range ap.in.staged {
		s := st.stage
		for _, at := range p.spots(s.table, ap.db.place) {
			var where string
			switch at.table {
			case fk.child:
				where = fmt.Sprintf("s.shardctl_cur = %d AND %s AND NOT EXISTS (SELECT FROM %s p WHERE %s)%s",
					at.loc, s.present(fk.columns), fk.parent, s.refers(fk, "p"), ap.stagedParent(fk))
			case fk.parent:
				where = fmt.Sprintf("s.shardctl_cur = %d AND EXISTS (SELECT FROM %s t WHERE %s AND EXISTS (SELECT FROM %s c WHERE %s))",
					nowhere, fk.parent, s.same("t"), fk.child, fk.refersTo("c", "t"))
			default:
				continue
			}
			rows, err := ap.keepOut(ctx, st, where, reasonForeignKey, message)
			if err != nil {
				return n, err
			}
			n += rows
		}
	}
	return n, nil
}

// stagedParent is the condition that no parent is staged either.
func (ap *application) stagedParent(fk foreignKey) string {
	p := ap.db.a.plan
	for _, st := range ap.in.staged {
		for _, at := range p.spots(st.stage.table, ap.db.place) {
			if at.table != fk.parent {
				continue
			}
			parts := make([]string, len(fk.columns))
			for i := range fk.columns {
				parts[i] = fmt.Sprintf("p.%s::text = s.%s::text", fk.refers[i], fk.columns[i])
			}
			return fmt.Sprintf(" AND NOT EXISTS (SELECT FROM %s p WHERE p.shardctl_cur = %d AND %s)", st.stage.name, at.loc, strings.Join(parts, " AND "))
		}
	}
	return ""
}

// present is the condition that a staged row names a parent at all.
func (s *stage) present(columns []string) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = "s." + c + " IS NOT NULL"
	}
	return strings.Join(out, " AND ")
}

// refers is the condition that a staged child refers to a stored parent.
func (s *stage) refers(fk foreignKey, parent string) string {
	out := make([]string, len(fk.columns))
	for i, name := range fk.columns {
		value := "s." + name
		for _, c := range s.columns {
			if c.name == name {
				value = s.expr(c)
			}
		}
		out[i] = fmt.Sprintf("%s.%s %s %s", parent, fk.refers[i], fk.equal[i], value)
	}
	return strings.Join(out, " AND ")
}

// errorText is what is kept of a server's refusal: no values of the row.
func errorText(err error) string {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err.Error()
	}
	text := pgErr.Message + " (SQLSTATE " + pgErr.Code + ")"
	if pgErr.ConstraintName != "" && !strings.Contains(pgErr.Message, pgErr.ConstraintName) {
		text += " constraint " + pgErr.ConstraintName
	}
	return text
}
