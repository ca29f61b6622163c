-- $1 schemas, none: all but the system's and ours. Every relation in which an application may have rows, but
-- partitions: they belong to their table. Rows are an estimate, -1 where nothing is known.
SELECT n.nspname::text, c.relname::text,
       coalesce((SELECT e.extname::text FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
                 WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' LIMIT 1), ''),
       s.rows, s.bytes
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT coalesce(sum(h.reltuples::float8) FILTER (WHERE known), CASE WHEN count(*) > 0 THEN -1 ELSE 0 END)::bigint AS rows,
         coalesce(sum(pg_catalog.pg_total_relation_size(h.oid)), 0)::bigint AS bytes
  FROM (SELECT r.oid, r.reltuples, r.reltuples > 0 OR r.reltuples = 0 AND pg_catalog.pg_relation_size(r.oid) = 0 AS known
        FROM pg_catalog.pg_class r
        WHERE r.relkind IN ('r', 'm') AND (r.oid = c.oid OR r.oid IN (SELECT p.relid::oid FROM pg_catalog.pg_partition_tree(c.oid::regclass) p))) h
) s
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'shardctl', 'shardctl_topology')
  AND ($1::text[] = '{}' OR n.nspname = ANY ($1::text[]))
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
