-- $1 names of capture's triggers, $2 of its functions, $3 of its logs: those that are there,
-- with what removes them.
SELECT 'trigger' AS kind, pg_catalog.format('%I ON %I.%I', t.tgname, n.nspname, c.relname) AS name, pg_catalog.format('DROP TRIGGER IF EXISTS %I ON %I.%I', t.tgname, n.nspname, c.relname) AS undo
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.tgname = ANY ($1::text[]) AND t.tgparentid = 0
UNION ALL
SELECT 'function', p.oid::regprocedure::text, pg_catalog.format('DROP FUNCTION IF EXISTS %s', p.oid::regprocedure)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'shardctl' AND p.proname = ANY ($2::text[])
UNION ALL
SELECT 'table', pg_catalog.format('"shardctl"."%s"', c.relname), pg_catalog.format('DROP TABLE IF EXISTS "shardctl"."%s"', c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shardctl' AND c.relkind = 'r' AND c.relname = ANY ($3::text[])
ORDER BY 1, 2
