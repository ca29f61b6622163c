package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// foreignKey is one constraint with an end at a migrated table.
type foreignKey struct {
	name           string
	from, to       migrate.TableName
	columns, refer []string
}

// foreignKeys: constraints that leave the group cannot exist on the databases;
// those within it hold only where both ends share a shard. Rows that would break
// are counted.
func foreignKeys(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	keys, err := readForeignKeys(ctx, s.Source, s.oids())
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		from, to := s.Layout.Table(k.from), s.Layout.Table(k.to)
		switch {
		case from == nil:
			found = append(found, warning("fk.into_group", k.name, fmt.Sprintf("%s refers to %s, which moves away: on the source it sees the rollback copy only", k.from, k.to)))
		case to == nil:
			found = append(found, warning("fk.leaves_group", k.name, fmt.Sprintf("%s refers to %s, which does not move: the constraint is not created on the databases", k.from, k.to)))
		case to.Everywhere() && !from.Everywhere():
			found = append(found, warning("fk.to_everywhere", k.name, fmt.Sprintf("%s refers to %s, which is everywhere: after a cutover, a row of it that is deleted on the source waits in quarantine where rows refer to it", k.from, k.to)))
		case to.Everywhere() || s.Spec.Shards.Count == 1:
		case from.Everywhere():
			found = append(found, blocking("fk.from_everywhere", k.name, fmt.Sprintf("%s is everywhere but refers to %s, of which each database has a part only", k.from, k.to)))
		case from.Parent == to && len(k.columns) == 1 && k.columns[0] == from.Via.Name:
		default:
			n, err := apart(ctx, s, from, to, k)
			if err != nil {
				return nil, err
			}
			switch {
			case n > 0:
				found = append(found, warning("fk.cross_shard", k.name, fmt.Sprintf("%d rows of %s refer to rows of %s on another shard: the constraint is not created on the databases", n, k.from, k.to)))
			case !target.Kept(s.Layout, from, blueprint.ForeignKey{To: k.to, Columns: k.columns, Referred: k.refer}):
				found = append(found, info("fk.not_created", k.name, fmt.Sprintf("nothing keeps a row of %s and the row of %s that it refers to on one shard, though today all are: the constraint is not created on the databases", k.from, k.to)))
			}
		}
	}
	return found, nil
}

func readForeignKeys(ctx context.Context, q postgres.Querier, tables []uint32) ([]foreignKey, error) {
	const sql = `SELECT c.conname, fn.nspname, f.relname, tn.nspname, t.relname,
	  array(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(n, o) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY o),
	  array(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(n, o) JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n ORDER BY o)
	FROM pg_constraint c JOIN pg_class f ON f.oid = c.conrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
	JOIN pg_class t ON t.oid = c.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
	WHERE c.contype = 'f' AND c.conparentid = 0 AND (c.conrelid = ANY($1) OR c.confrelid = ANY($1)) ORDER BY 1, 2, 3`
	rows, err := q.Query(ctx, sql, tables)
	if err != nil {
		return nil, fmt.Errorf("read foreign keys: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (k foreignKey, err error) {
		err = r.Scan(&k.name, &k.from.Schema, &k.from.Name, &k.to.Schema, &k.to.Name, &k.columns, &k.refer)
		return k, err
	})
}

// apart counts the rows whose ends lie on different shards.
func apart(ctx context.Context, s *Survey, from, to *layout.Table, k foreignKey) (n int64, err error) {
	fromJoins, fromKey := from.KeyFrom("f")
	toJoins, toKey := to.KeyFrom("t")
	on := make([]string, len(k.columns))
	for i := range k.columns {
		on[i] = "f." + postgres.Ident(k.columns[i]) + " = t." + postgres.Ident(k.refer[i])
	}
	// Each side joins its own parents: sub-selects keep the aliases apart.
	sql := fmt.Sprintf(`SELECT count(*) FROM (SELECT f.*, %s AS shardctl_shard FROM %s AS f %s) AS f JOIN (SELECT t.*, %s AS shardctl_shard FROM %s AS t %s) AS t ON %s
	WHERE f.shardctl_shard IS DISTINCT FROM t.shardctl_shard`,
		s.Layout.ShardSQL(from, fromKey), from.QualifiedSource(), fromJoins, s.Layout.ShardSQL(to, toKey), to.QualifiedSource(), toJoins, strings.Join(on, " AND "))
	if err := s.Source.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("count rows of %s across shards: %w", k.name, err)
	}
	return n, nil
}
