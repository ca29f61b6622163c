-- What may be done with the table $2 of schema $1.
SELECT current_user::text, current_database()::text, current_setting('server_version'), pg_is_in_recovery(),
       n.oid IS NOT NULL, c.oid IS NOT NULL,
       has_database_privilege(current_database(), 'CREATE'),
       coalesce(has_schema_privilege(n.oid, 'USAGE'), false), coalesce(has_schema_privilege(n.oid, 'CREATE'), false),
       coalesce(has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE'), false),
       coalesce(row_security_active(c.oid), false),
       coalesce(c.relkind IN ('r', 'p') AND u.keyed AND u.columns = 4, false)
FROM (SELECT) one
LEFT JOIN pg_namespace n ON n.nspname = $1
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = $2
LEFT JOIN LATERAL (
  SELECT count(*) FILTER (WHERE (a.attname, a.atttypid) IN (('migration', 'text'::regtype), ('epoch', 'int8'::regtype), ('document', 'jsonb'::regtype), ('updated', 'timestamptz'::regtype))) AS columns,
         coalesce(bool_or(EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
           AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AND a.attname = 'migration')), false) AS keyed
  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
) u ON true
