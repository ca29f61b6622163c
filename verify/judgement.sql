-- $1 migration. For each database: whether the last full pass saw the epoch that its
-- shards have now, whether all that was written since that pass began is known, whether
-- its rounds are held, the differences that stand, the keys that are unsettled.
WITH last AS (
  SELECT pass, started_at FROM shardctl.verify_pass WHERE migration = $1 AND mode = 'full' ORDER BY started_at DESC LIMIT 1
), done AS (
  SELECT coalesce(max(started_at), '-infinity') AS since FROM shardctl.verify_pass WHERE migration = $1 AND mode = 'full' AND finished_at IS NOT NULL
)
SELECT o.database,
       EXISTS (SELECT FROM shardctl.verify_pass_database d JOIN last USING (pass)
               WHERE d.migration = $1 AND d.database = o.database AND d.epoch = o.epoch AND d.owner = o.owner),
       EXISTS (SELECT FROM shardctl.verify_round r WHERE r.migration = $1 AND r.database = o.database AND r.direction = 'forward')
       AND NOT EXISTS (SELECT FROM shardctl.verify_round r JOIN last ON r.since > last.started_at
                       WHERE r.migration = $1 AND r.database = o.database AND (r.direction = 'reverse') <= (o.owner <> 'source')),
       EXISTS (SELECT FROM shardctl.verify_round r
               WHERE r.migration = $1 AND r.database = o.database AND (r.direction = 'reverse') <= (o.owner <> 'source') AND r.held IS NOT NULL),
       (SELECT count(DISTINCT (d.schema_name, d.table_no, d.key)) FROM shardctl.verify_difference d, done WHERE d.migration = $1 AND d.database = o.database AND d.at >= done.since),
       (SELECT count(*) FROM shardctl.verify_unsettled u WHERE u.migration = $1 AND u.database = o.database)
FROM shardctl.ownership o WHERE o.migration = $1 ORDER BY o.database
