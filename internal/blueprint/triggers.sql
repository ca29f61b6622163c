-- $1 oids of relations: the user's triggers. Those of foreign keys and deferrable
-- keys belong to their constraints, those named shardctl_ to us.
SELECT t.tgrelid, t.tgname::text, pg_catalog.pg_get_triggerdef(t.oid), pg_catalog.format('%I.%I', n.nspname, c.relname), t.tgenabled::text, t.tgparentid <> 0
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = ANY ($1::oid[]) AND t.tgname NOT LIKE 'shardctl\_%'
  AND NOT (p.pronamespace = 'pg_catalog'::regnamespace AND (p.proname LIKE 'RI\_FKey\_%' OR p.proname = 'unique_key_recheck'))
ORDER BY t.tgrelid, t.tgname
