package preflight

import (
	"context"

	"github.com/shardctl/shardctl/migrate"
)

// transactions: prepared ones hold their locks until somebody ends them, long ones
// hold up install's locks and the horizon.
func transactions(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	prepared, err := texts(ctx, s.Source, `SELECT format('%L prepared %s ago by %s', gid, date_trunc('second', clock_timestamp() - prepared), owner) FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 20`)
	if err != nil {
		return nil, err
	}
	for _, p := range prepared {
		found = append(found, blocking("transaction.prepared", "source", "prepared transaction "+p+": install would wait for it without end; commit it or roll it back"))
	}
	long, err := texts(ctx, s.Source, `SELECT format('pid %s (%s, %s) open for %s: %s', pid, usename, coalesce(nullif(application_name, ''), '?'), date_trunc('second', clock_timestamp() - xact_start), left(query, 80))
	FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND clock_timestamp() - xact_start > interval '5 minutes' ORDER BY xact_start LIMIT 20`)
	if err != nil {
		return nil, err
	}
	for _, l := range long {
		found = append(found, warning("transaction.long", "source", "long transaction "+l+": a writer among them holds up install and cutover"))
	}
	return found, nil
}
