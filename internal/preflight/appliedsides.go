package preflight

import (
	"context"
	"fmt"

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
		if postgres.SQLState(err) == "42501" {
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
