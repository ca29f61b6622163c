-- $1 schemas: constraints, indexes, triggers and policies there, as "kind name".
WITH rel AS (
  SELECT c.oid, c.relkind, '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"' AS name
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ANY ($1::text[]) AND c.relkind IN ('r', 'p', 'i', 'I')
)
SELECT 'constraint ' || r.name || ' "' || replace(c.conname, '"', '""') || '"' FROM rel r JOIN pg_catalog.pg_constraint c ON c.conrelid = r.oid
UNION ALL
SELECT 'index ' || r.name FROM rel r WHERE r.relkind IN ('i', 'I')
UNION ALL
SELECT 'trigger ' || r.name || ' "' || replace(t.tgname, '"', '""') || '"' FROM rel r JOIN pg_catalog.pg_trigger t ON t.tgrelid = r.oid
UNION ALL
SELECT 'policy ' || r.name || ' "' || replace(p.polname, '"', '""') || '"' FROM rel r JOIN pg_catalog.pg_policy p ON p.polrelid = r.oid
