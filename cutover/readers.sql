-- $1 process ids, $2 interval: those of them whose transaction is open for longer.
SELECT pid, format('pid %s (%s, %s, open for %s): %s', pid, coalesce(nullif(application_name, ''), usename), state,
  date_trunc('milliseconds', clock_timestamp() - xact_start), left(query, 80))
FROM pg_stat_activity
WHERE pid = ANY ($1::int[]) AND datname = current_database() AND clock_timestamp() - xact_start > $2::interval
