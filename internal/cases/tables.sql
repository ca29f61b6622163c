-- The user's tables with what a spec and a comparison need of them, parents first where
-- their numbers say so.
SELECT c.oid, n.nspname, c.relname,
  array(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
  array(SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS types,
  coalesce((SELECT array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(num, ord) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.num ORDER BY u.ord) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'), '{}') AS pk,
  array(SELECT k.confrelid::bigint || ' ' || a.attname FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
        WHERE k.conrelid = c.oid AND k.contype = 'f' AND cardinality(k.conkey) = 1 AND k.confrelid <> c.oid ORDER BY k.oid) AS parents
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'shardctl') AND n.nspname NOT LIKE 'pg\_%'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.oid
