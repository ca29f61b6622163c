-- $1 migration, $2 databases, $3 age of a stale heartbeat: a chunk that one of the
-- databases lacks and that nobody works on.
SELECT c.plan, c.table_no, c.no, p.relation, p.filenode, c.from_page, c.to_page, c.pending
FROM shardctl.chunk c
JOIN shardctl.backfill_plan p USING (migration, plan, table_no, leaf)
WHERE c.migration = $1 AND c.state <> 'done' AND c.pending && $2::text[]
  AND (c.state = 'todo'
    OR c.heartbeat_at < clock_timestamp() - $3::interval
    OR NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.pid = c.backend_pid AND a.backend_start = c.backend_start))
ORDER BY c.table_no, c.plan, c.no
LIMIT 1
FOR UPDATE OF c SKIP LOCKED
