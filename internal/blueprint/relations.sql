-- $1 oids of tables: each with its partitions, parents before children.
SELECT r.oid, c.oid, coalesce(i.inhparent, 0::oid), n.nspname::text, c.relname::text,
       coalesce(CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END, ''),
       coalesce(pg_catalog.pg_get_expr(c.relpartbound, c.oid), ''),
       coalesce(c.reloptions, '{}') || coalesce((SELECT pg_catalog.array_agg('toast.' || o) FROM unnest(tc.reloptions) o), '{}'),
       c.relpersistence = 'u', pg_catalog.pg_get_userbyid(c.relowner)::text, coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), c.relreplident::text
FROM unnest($1::oid[]) WITH ORDINALITY r(oid, ord)
CROSS JOIN LATERAL (SELECT r.oid AS relid, 0 AS level
                    UNION SELECT p.relid::oid, p.level FROM pg_catalog.pg_partition_tree(r.oid::regclass) p) p
JOIN pg_catalog.pg_class c ON c.oid = p.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class tc ON tc.oid = c.reltoastrelid
LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND p.level > 0
ORDER BY r.ord, p.level, n.nspname, c.relname
