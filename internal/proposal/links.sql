-- $1 table oids: their foreign keys, one row each.
SELECT fn.nspname::text, f.relname::text, tn.nspname::text, t.relname::text,
       array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, o) JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY o),
       array(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, o) JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY o)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class f ON f.oid = k.conrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace
JOIN pg_catalog.pg_class t ON t.oid = k.confrelid JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid = ANY ($1::oid[])
ORDER BY fn.nspname COLLATE "C", f.relname COLLATE "C", k.conname COLLATE "C"
