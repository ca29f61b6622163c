-- $1 oids of tables: their policies.
SELECT p.polrelid, p.polname::text, p.polpermissive,
       CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
       ARRAY(SELECT pg_catalog.pg_get_userbyid(r)::text FROM unnest(p.polroles) r WHERE r <> 0 ORDER BY 1),
       coalesce(pg_catalog.pg_get_expr(p.polqual, p.polrelid), ''), coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid), ''),
       ARRAY(SELECT DISTINCT d.refobjid FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_policy'::regclass AND d.objid = p.oid
             AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> p.polrelid)
FROM pg_catalog.pg_policy p
WHERE p.polrelid = ANY ($1::oid[])
ORDER BY p.polrelid, p.polname
