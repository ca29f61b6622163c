-- $1 quoted tables, $2 the states in which a trigger fires in our session, $3 the prefix
-- of our own triggers: what a TRUNCATE of the tables and their partitions would reach
-- besides them.
WITH ours AS (
    SELECT pg_catalog.to_regclass(r)::oid AS relid FROM unnest($1::text[]) r
    UNION SELECT p.relid::oid FROM unnest($1::text[]) r CROSS JOIN LATERAL pg_catalog.pg_partition_tree(pg_catalog.to_regclass(r)) p
)
SELECT 'foreign_key' AS kind, pg_catalog.format('%I of %s', c.conname, c.conrelid::regclass) AS name, c.confrelid::regclass::text AS relation
FROM pg_catalog.pg_constraint c
WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confrelid IN (SELECT relid FROM ours) AND c.conrelid NOT IN (SELECT relid FROM ours)
UNION ALL
SELECT 'trigger', pg_catalog.quote_ident(t.tgname), t.tgrelid::regclass::text
FROM pg_catalog.pg_trigger t
WHERE t.tgrelid IN (SELECT relid FROM ours) AND NOT t.tgisinternal AND t.tgtype & 32 <> 0
  AND t.tgenabled::text = ANY ($2::text[]) AND NOT pg_catalog.starts_with(t.tgname::text, $3)
UNION ALL
SELECT 'publication', pg_catalog.quote_ident(p.pubname), pg_catalog.format('%I.%I', pt.schemaname, pt.tablename)
FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_tables pt USING (pubname)
WHERE p.pubtruncate AND pg_catalog.to_regclass(pg_catalog.format('%I.%I', pt.schemaname, pt.tablename)) IN (SELECT relid FROM ours)
ORDER BY 1, 2, 3
