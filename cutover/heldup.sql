-- $1 interval: who has held up a session of ours for longer.
SELECT DISTINCT CASE WHEN a.pid IS NULL THEN 'a prepared transaction'
  ELSE format('pid %s (%s, %s, open for %s): %s', a.pid, coalesce(nullif(a.application_name, ''), a.usename, a.backend_type), a.state,
    date_trunc('milliseconds', clock_timestamp() - a.xact_start), left(a.query, 80)) END
FROM pg_stat_activity ours
CROSS JOIN LATERAL unnest(pg_blocking_pids(ours.pid)) AS by(pid)
LEFT JOIN pg_stat_activity a ON a.pid = by.pid
WHERE ours.datname = current_database() AND ours.application_name LIKE 'shardctl %' AND ours.wait_event_type = 'Lock'
  AND clock_timestamp() - ours.query_start > $1::interval AND coalesce(a.application_name, '') NOT LIKE 'shardctl %'
