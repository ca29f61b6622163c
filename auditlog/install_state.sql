-- $1 schemas, $2 names of root tables; $3 capture trigger, $4 truncate trigger; $5 and $6 their functions, qualified:
-- each root and all below it, with the state of both triggers ('' where there is none).
WITH RECURSIVE tree(ord, oid, depth) AS (
  SELECT w.ord, c.oid, 0
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, ord)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema::name
  CROSS JOIN LATERAL (SELECT c.oid FROM pg_catalog.pg_class c
                      WHERE c.relnamespace = n.oid AND c.relname = w.name::name AND c.relkind IN ('r', 'p') OFFSET 0) c -- one look-up a table
  UNION ALL
  SELECT t.ord, i.inhrelid, t.depth + 1 FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
)
SELECT t.ord - 1, n.nspname::text, c.relname::text, c.relkind::text,
       coalesce(r.tgenabled::text, ''), coalesce(s.tgenabled::text, '')
FROM tree t
JOIN pg_catalog.pg_class c ON c.oid = t.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_trigger r ON r.tgrelid = t.oid AND r.tgname = $3 AND r.tgfoid = pg_catalog.to_regproc($5)
LEFT JOIN pg_catalog.pg_trigger s ON s.tgrelid = t.oid AND s.tgname = $4 AND s.tgfoid = pg_catalog.to_regproc($6)
ORDER BY t.ord, t.depth, n.nspname, c.relname
