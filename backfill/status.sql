-- $1 migration: each table's plan and chunks.
SELECT p.table_no, sum(p.bytes)::bigint, sum(p.estimated_rows)::bigint,
       sum(coalesce(c.done_part, 0) * p.bytes)::bigint, sum(coalesce(c.rows, 0))::bigint, sum(coalesce(c.done, 0))::int,
       sum(coalesce(c.taken, 0) + CASE WHEN p.next_page IS NULL THEN 0
         WHEN coalesce(c.taken, 0) = 0 THEN 1
         ELSE ceil((p.pages - p.next_page) / greatest(p.next_page / c.taken::float8, 1)) END)::int,
       bool_and(p.next_page IS NULL AND coalesce(c.done, 0) = coalesce(c.taken, 0)),
       sum(coalesce(c.recent_rows, 0))::float8, sum(coalesce(c.recent_part, 0) * p.bytes)::float8, min(c.since)::float8
FROM shardctl.backfill_plan p
LEFT JOIN LATERAL (
  SELECT count(*) AS taken, count(*) FILTER (WHERE state = 'done') AS done, sum(rows) AS rows,
         sum(part) FILTER (WHERE state = 'done') AS done_part,
         sum(rows) FILTER (WHERE recent) AS recent_rows, sum(part) FILTER (WHERE recent) AS recent_part,
         extract(epoch FROM clock_timestamp() - min(done_at) FILTER (WHERE recent)) AS since
  FROM (SELECT k.*, (least(coalesce(k.to_page, p.pages), p.pages) - least(k.from_page, p.pages))::float8 / greatest(p.pages, 1) AS part,
               coalesce(k.done_at > clock_timestamp() - interval '30 seconds', false) AS recent
        FROM shardctl.chunk k WHERE (k.migration, k.plan, k.table_no, k.leaf) = (p.migration, p.plan, p.table_no, p.leaf)) k
) c ON true
WHERE p.migration = $1
GROUP BY p.table_no
ORDER BY p.table_no
