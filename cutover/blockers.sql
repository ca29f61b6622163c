-- $1 tables (quoted), $2 interval: transactions open for longer, and prepared ones, that
-- hold a lock on one of the tables that a reader would not take. A prepared one keeps the
-- virtual transaction of the session that made it, so that its number is on another lock.
SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'prepared transaction ' || coalesce(p.gid, '?')
  ELSE format('pid %s (%s, %s, open for %s): %s', a.pid, coalesce(nullif(a.application_name, ''), a.usename, a.backend_type), a.state,
    date_trunc('milliseconds', clock_timestamp() - a.xact_start), left(a.query, 80)) END
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.granted AND l.relation = ANY (SELECT to_regclass(t) FROM unnest($1::text[]) t)
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND (l.pid IS NULL OR clock_timestamp() - a.xact_start > $2::interval)
  AND coalesce(a.backend_type, '') <> 'autovacuum worker'
