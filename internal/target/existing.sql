-- $1 kinds, $2 quoted names: those that are there, as "kind name". A function is
-- looked for by its text, since one with an unknown argument type cannot be asked for.
SELECT a.kind || ' ' || a.name
FROM unnest($1::text[], $2::text[]) a(kind, name)
WHERE CASE a.kind
  WHEN 'schema' THEN pg_catalog.to_regnamespace(a.name) IS NOT NULL
  WHEN 'type' THEN pg_catalog.to_regtype(a.name) IS NOT NULL
  WHEN 'collation' THEN pg_catalog.to_regcollation(a.name) IS NOT NULL
  WHEN 'function' THEN EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND p.oid::regprocedure::text = a.name)
  ELSE pg_catalog.to_regclass(a.name) IS NOT NULL END
