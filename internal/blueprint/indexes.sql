-- $1 oids of relations: valid indexes of their own that no constraint made, with
-- the beginning of the definition up to USING, as this server prints it.
SELECT x.indrelid, i.relname::text, x.indisunique, pg_catalog.pg_get_indexdef(i.oid),
       pg_catalog.format('CREATE %sINDEX %I ON %s%I.%I USING ', CASE WHEN x.indisunique THEN 'UNIQUE ' ELSE '' END, i.relname,
         CASE WHEN i.relkind = 'I' THEN 'ONLY ' ELSE '' END, n.nspname, c.relname), x.indisreplident
FROM pg_catalog.pg_index x
JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE x.indrelid = ANY ($1::oid[]) AND x.indisvalid
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.oid AND k.contype IN ('p', 'u', 'x'))
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.oid)
ORDER BY x.indrelid, i.relname
