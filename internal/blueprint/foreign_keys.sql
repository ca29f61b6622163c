-- $1 oids of relations: foreign keys of their own.
SELECT c.conrelid, c.conname::text, n.nspname::text, t.relname::text,
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(num, ord) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num ORDER BY k.ord),
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(num, ord) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.num ORDER BY k.ord),
       c.confmatchtype::text, c.confupdtype::text, c.confdeltype::text,
       ARRAY(SELECT a.attname::text FROM pg_catalog.jsonb_array_elements_text(CASE WHEN pg_catalog.jsonb_typeof(pg_catalog.to_jsonb(c) -> 'confdelsetcols') = 'array' THEN pg_catalog.to_jsonb(c) -> 'confdelsetcols' ELSE '[]' END)
             WITH ORDINALITY k(num, ord) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num::int ORDER BY k.ord),
       c.condeferrable, c.condeferred, c.convalidated,
       coalesce((pg_catalog.to_jsonb(c) ->> 'conenforced')::bool, true), coalesce((pg_catalog.to_jsonb(c) ->> 'conperiod')::bool, false) -- from version 18 on
FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_class t ON t.oid = c.confrelid
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
WHERE c.conrelid = ANY ($1::oid[]) AND c.contype = 'f' AND c.conparentid = 0
ORDER BY c.conrelid, c.conname
