-- $1 kinds, $2 names as they are registered: those that are not there.
WITH triggers AS MATERIALIZED (
  SELECT pg_catalog.format('"%s" ON "%s"."%s"', replace(t.tgname, '"', '""'), replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')) AS name
  FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE t.tgname LIKE 'shardctl\_%'
), functions AS MATERIALIZED (
  SELECT p.oid::regprocedure::text AS name,
         pg_catalog.format('"%s"."%s"()', replace(n.nspname, '"', '""'), replace(p.proname, '"', '""')) AS quoted
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.oid >= 16384
)
SELECT r.kind, r.name
FROM unnest($1::text[], $2::text[]) r(kind, name)
WHERE NOT CASE r.kind
  WHEN 'trigger' THEN r.name IN (SELECT t.name FROM triggers t)
  WHEN 'function' THEN r.name IN (SELECT f.name FROM functions f) OR r.name IN (SELECT f.quoted FROM functions f)
  WHEN 'schema' THEN pg_catalog.to_regnamespace(r.name) IS NOT NULL
  WHEN 'type' THEN pg_catalog.to_regtype(r.name) IS NOT NULL
  WHEN 'collation' THEN pg_catalog.to_regcollation(r.name) IS NOT NULL
  ELSE pg_catalog.to_regclass(r.name) IS NOT NULL END
ORDER BY 1, 2
