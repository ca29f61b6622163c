-- $1 kinds, $2 oids: the quoted names by which describe.sql finds objects.
SELECT a.kind, a.oid::bigint, CASE a.kind WHEN 'type' THEN pg_catalog.format_type(a.oid::oid, NULL) WHEN 'function' THEN a.oid::oid::regprocedure::text
  WHEN 'collation' THEN (SELECT pg_catalog.format('%I.%I', n.nspname, c.collname) FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.oid::oid) END
FROM unnest($1::text[], $2::bigint[]) a(kind, oid)
