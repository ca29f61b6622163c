-- $1 oids of tables, $2 of sequences (regclass texts), $3 of functions (regprocedure
-- texts): what is granted on them, on the tables' columns and schemas.
WITH rel AS (SELECT c.oid, c.relnamespace, n.nspname, c.relname, c.relkind, c.relowner, c.relacl
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = ANY ($1::oid[]) OR c.oid = ANY (SELECT x::regclass::oid FROM unnest($2::text[]) x)),
all_of AS (
  SELECT DISTINCT 'SCHEMA' AS kind, n.nspname::text AS schema, '' AS name, '' AS fn, '' AS col, x.grantee, x.privilege_type, x.is_grantable
  FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) x
  WHERE n.oid IN (SELECT r.relnamespace FROM rel r)
  UNION ALL
  SELECT CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.nspname, r.relname, '', '', x.grantee, x.privilege_type, x.is_grantable
  FROM rel r, pg_catalog.aclexplode(r.relacl) x WHERE x.grantee <> r.relowner
  UNION ALL
  SELECT 'COLUMN', r.nspname, r.relname, '', a.attname, x.grantee, x.privilege_type, x.is_grantable
  FROM rel r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped, pg_catalog.aclexplode(a.attacl) x
  WHERE x.grantee <> r.relowner
  UNION ALL
  SELECT 'FUNCTION', '', '', f.name, '', x.grantee, x.privilege_type, x.is_grantable
  FROM unnest($3::text[]) f(name) JOIN pg_catalog.pg_proc p ON p.oid = f.name::regprocedure, pg_catalog.aclexplode(p.proacl) x
  WHERE x.grantee <> p.proowner)
SELECT kind, schema, name, fn, col, CASE WHEN grantee = 0 THEN '' ELSE pg_catalog.pg_get_userbyid(grantee)::text END, privilege_type, is_grantable
FROM all_of ORDER BY 1, 2, 3, 4, 5, 6, 7
