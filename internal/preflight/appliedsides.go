package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// appliedSides: an applier's sessions enforce no FK action and fire no user
// trigger. Where the role may not have replica role, the source's tables with either
// cannot be written in reverse.
func appliedSides(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	names, conns := s.sides()
	for i, conn := range conns {
		may, err := mayReplicate(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		if may && i == 0 {
			more, err := undaunted(ctx, s)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		if may {
			continue
		}
		if i > 0 {
			found = append(found, warning("role.no_replica", names[i], "the role may not set session_replication_role: FKs are deferred and user triggers disabled while the database is written by catch-up"))
			continue
		}
		more, err := bothered(ctx, s)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func mayReplicate(ctx context.Context, conn *pgx.Conn) (may bool, err error) {
	err = postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica")
		may = err == nil
		if postgres.SQLState(err) == insufficientPrivilege {
			return errNoReplica
		}
		return err
	})
	if err != nil && !may && isNoReplica(err) {
		return false, nil
	}
	return may, err
}

// bothered lists the source's tables whose FK actions or user triggers would run
// when a rollback writes them.
func bothered(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT coalesce(string_agg(what, ', '), '') FROM (
	  SELECT 'trigger ' || tgname AS what FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal AND tgname NOT LIKE 'shardctl\_%'
	  UNION ALL SELECT 'foreign key ' || conname FROM pg_constraint WHERE contype = 'f' AND (conrelid = $1 OR confrelid = $1) AND (confdeltype IN ('c', 'n', 'd', 'r') OR confupdtype IN ('c', 'n', 'd', 'r'))) x`
	for _, t := range s.Layout.Tables {
		if t.Everywhere() || t.Spec.Rollback == "none" {
			continue
		}
		var what string
		if err := s.Source.QueryRow(ctx, sql, t.Source.OID).Scan(&what); err != nil {
			return nil, err
		}
		if what != "" {
			found = append(found, blocking("applied.triggers", t.Name(), "a rollback cannot hold off "+what+" without replica role; grant it, or say rollback: none",
				"GRANT SET ON PARAMETER session_replication_role TO "+postgres.Ident(s.Source.Config().User)+";"))
		}
	}
	return found, nil
}

// undaunted lists the source's triggers and rules that replica role does not hold off:
// they would run once more when a rollback writes what the application wrote. Up to
// version 14 those that partitions got from their parents count as internal.
func undaunted(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `WITH rel AS (SELECT $1::oid AS oid UNION SELECT relid::oid FROM pg_partition_tree($1::oid::regclass))
	SELECT format('%I.%I', n.nspname, c.relname), x.kind, x.name FROM (
	  SELECT tgrelid, 'TRIGGER', tgname FROM pg_trigger WHERE (NOT tgisinternal OR tgparentid <> 0) AND tgname NOT LIKE 'shardctl\_%' AND tgenabled IN ('A', 'R')
	  UNION ALL SELECT ev_class, 'RULE', rulename FROM pg_rewrite WHERE ev_enabled IN ('A', 'R')) x(rel, kind, name)
	JOIN rel r ON r.oid = x.rel JOIN pg_class c ON c.oid = x.rel JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2, 3`
	for _, t := range s.Layout.Tables {
		if t.Everywhere() || t.Spec.Rollback == "none" {
			continue
		}
		rows, err := s.Source.Query(ctx, sql, t.Source.OID)
		if err != nil {
			return nil, err
		}
		var table, kind, name string
		if _, err = pgx.ForEachRow(rows, []any{&table, &kind, &name}, func() error {
			found = append(found, blocking("applied.triggers", table, fmt.Sprintf("%s %s fires in replica role too: a rollback would run it once more; let it fire for the application only, or say rollback: none", strings.ToLower(kind), name),
				fmt.Sprintf("ALTER TABLE %s ENABLE %s %s;", table, kind, postgres.Ident(name))))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
