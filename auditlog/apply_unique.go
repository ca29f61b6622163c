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

// beyondError says that rows stand in the way of a cut batch whose own entries
// lie beyond the cut: they belong into the batch too.
type beyondError struct{ keys map[int][]string }

func (*beyondError) Error() string { return "rows beyond the batch's cut hold unique values" }

// beyondCut looks for the stored rows that made rows of a cut batch clash. Keys
// that were added before and still stand in the way are no reason to try again.
func (ap *application) beyondCut(ctx context.Context, failed []failure) error {
	keys, added := map[int][]string{}, false
	for _, group := range byStatement(failed) {
		s := group[0].statement
		if s.action != write || !clashes(group[0].err) {
			continue
		}
		found, err := inTheWay(ctx, ap.tx, s.staged.stage, s.where+" AND "+among(group), group[0].err)
		if err != nil {
			return err
		}
		no := s.staged.stage.table.No
		for _, key := range found {
			if !contains(ap.db.extra[no], key) {
				keys[no], added = append(keys[no], key), true
			}
		}
	}
	if !added {
		return nil
	}
	return &beyondError{keys: keys}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

const uniqueSQL = `SELECT coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'),
  ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, true) FROM generate_series(1, i.indnkeyatts) k),
  ARRAY(SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname) FROM unnest(i.indclass::oid[]) WITH ORDINALITY c(oid, ord) JOIN pg_opclass oc ON oc.oid = c.oid
    JOIN pg_amop m ON m.amopfamily = oc.opcfamily AND m.amopstrategy = 3 AND m.amoplefttype = oc.opcintype AND m.amoprighttype = oc.opcintype
    JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace ORDER BY c.ord),
  coalesce((SELECT string_agg(format(', (%s) AS %I', pg_get_expr(d.adbin, d.adrelid), a.attname), '') FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid = i.indrelid AND a.attgenerated <> ''), '')
FROM pg_index i WHERE i.indexrelid = to_regclass(format('%I.%I', $1::text, $2::text)) AND i.indisunique`

// inTheWay gives the keys of stored rows that have a unique value of staged rows.
// Generated columns are not staged: they are computed here as the table does.
func inTheWay(ctx context.Context, tx pgx.Tx, s *stage, where string, cause error) ([]string, error) {
	var pgErr *pgconn.PgError
	if !errors.As(cause, &pgErr) {
		return nil, nil
	}
	var predicate, generated string
	var exprs, equal []string
	err := tx.QueryRow(ctx, uniqueSQL, pgx.QueryExecModeExec, pgErr.SchemaName, pgErr.ConstraintName).Scan(&predicate, &exprs, &equal, &generated)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && len(equal) != len(exprs) {
		return nil, nil // an exclusion constraint: not looked into
	}
	if err != nil {
		return nil, fmt.Errorf("read unique index %s: %w", pgErr.ConstraintName, err)
	}
	values, match := make([]string, len(exprs)), make([]string, len(exprs))
	for i, e := range exprs {
		values[i] = fmt.Sprintf("(%s) AS shardctl_%d", e, i)
		match[i] = fmt.Sprintf("t.shardctl_%d %s s.shardctl_%d", i, equal[i], i)
	}
	all := make([]string, len(s.columns))
	for i, c := range s.columns {
		all[i] = s.expr(c) + " AS " + c.name
	}
	sql := fmt.Sprintf(`SELECT DISTINCT t.shardctl_key::text FROM (SELECT %[1]s FROM (SELECT s.*%[9]s FROM (SELECT %[2]s FROM %[3]s s WHERE %[4]s) s) s WHERE %[5]s) s
JOIN (SELECT %[6]s AS shardctl_key, %[1]s FROM %[7]s t WHERE %[5]s) t ON %[8]s`,
		strings.Join(values, ", "), strings.Join(all, ", "), s.name, where, predicate,
		keyJSON("t", s.table.Table), postgres.Table(pgErr.SchemaName, pgErr.TableName), strings.Join(match, " AND "), generated)
	rows, err := tx.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return nil, fmt.Errorf("look for what %s clashes with: %w", pgErr.ConstraintName, err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
