-- $1 oids of partitioned tables: their partitions, of all levels.
SELECT r.oid, c.oid, coalesce(pg_catalog.pg_relation_filenode(c.oid), 0::oid), n.nspname::text, c.relname::text, c.relkind::text
FROM unnest($1::oid[]) r(oid)
CROSS JOIN LATERAL pg_catalog.pg_partition_tree(r.oid::regclass) p
JOIN pg_catalog.pg_class c ON c.oid = p.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.level > 0
ORDER BY n.nspname, c.relname
