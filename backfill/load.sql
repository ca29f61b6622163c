-- $1 migration, $2 logs: what the throttle looks at on the source.
SELECT
  coalesce((SELECT paused FROM shardctl.backfill_control WHERE migration = $1), false),
  coalesce((SELECT by FROM shardctl.backfill_control WHERE migration = $1), ''),
  (SELECT count(*) FROM pg_catalog.pg_stat_replication),
  (SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE state IS NULL),
  (SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE state = 'catchup' AND replay_lag IS NULL),
  coalesce((SELECT extract(epoch FROM max(replay_lag)) FROM pg_catalog.pg_stat_replication WHERE state IN ('catchup', 'streaming')), 0)::float8,
  (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND application_name NOT LIKE 'shardctl %'),
  (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type IS NULL AND pid <> pg_catalog.pg_backend_pid()),
  (SELECT coalesce(sum(pg_catalog.pg_total_relation_size(pg_catalog.to_regclass(l))), 0) FROM unnest($2::text[]) l)::bigint,
  pg_catalog.to_char(clock_timestamp() AT TIME ZONE (SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'TimeZone'), 'HH24:MI'),
  (SELECT count(DISTINCT worker) FROM shardctl.chunk WHERE migration = $1 AND state = 'copying' AND heartbeat_at > clock_timestamp() - interval '10 seconds')
