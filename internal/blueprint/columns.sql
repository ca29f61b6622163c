-- $1 oids of tables: live columns.
SELECT a.attrelid, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN pg_catalog.format('%I.%I', cn.nspname, co.collname) ELSE '' END,
       a.attnotnull AND coalesce(nn.convalidated, true), CASE WHEN nn.convalidated AND nn.conname <> r.relname || '_' || a.attname || '_not_null' THEN nn.conname::text ELSE '' END,
       coalesce(pg_catalog.pg_get_expr(d.adbin, CASE WHEN a.attgenerated = '' THEN 0 ELSE d.adrelid END), ''), a.attgenerated::text,
       CASE WHEN a.attidentity <> '' THEN coalesce((SELECT s.objid::regclass::text FROM pg_catalog.pg_depend s
         WHERE s.classid = 'pg_class'::regclass AND s.refclassid = 'pg_class'::regclass AND s.refobjid = a.attrelid AND s.refobjsubid = a.attnum AND s.deptype = 'i'), '') ELSE '' END,
       CASE WHEN a.attstorage <> t.typstorage THEN CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END ELSE '' END,
       coalesce(CASE to_jsonb(a) ->> 'attcompression' WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END, ''),
       CASE WHEN coalesce(a.attstattarget, -1) >= 0 THEN a.attstattarget::text ELSE '' END,
       coalesce(a.attoptions, '{}'), coalesce(pg_catalog.col_description(a.attrelid, a.attnum), '')
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class r ON r.oid = a.attrelid
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_constraint nn ON nn.conrelid = a.attrelid AND nn.contype = 'n' AND nn.conkey = ARRAY[a.attnum] -- from version 18 on
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
