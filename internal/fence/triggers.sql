-- $1 tables (quoted), $2 trigger names: each table and all its partitions with
-- each trigger, whether it is there or not.
SELECT w.name, coalesce(pg_catalog.format('%I.%I', n.nspname, c.relname), ''), coalesce(t.tgenabled::text, '')
FROM (SELECT r.name, pg_catalog.to_regclass(r.name)::oid AS relid FROM unnest($1::text[]) r(name)
      UNION
      SELECT r.name, p.relid::oid FROM unnest($1::text[]) r(name) CROSS JOIN LATERAL pg_catalog.pg_partition_tree(pg_catalog.to_regclass(r.name)) p) rel
CROSS JOIN unnest($2::text[]) w(name)
LEFT JOIN pg_catalog.pg_class c ON c.oid = rel.relid
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid = rel.relid AND t.tgname = w.name
ORDER BY 2, 1
