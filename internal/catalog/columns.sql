-- $1 table oids: their live columns in attnum order. A default names no column, and without
-- its table it is worded at once: with it, each costs the square of the columns. A tsquery without a node and a vector
-- without an element are sent in a binary form that the server itself does not read; an array has one if its elements do.
-- NOT NULL that is NOT VALID (from version 18 on) says nothing of the rows that are there.
WITH RECURSIVE base(oid, base, typbasetype) AS (
  SELECT DISTINCT t.oid, t.oid, t.typbasetype
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.oid, t.oid, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype WHERE b.typbasetype <> 0
)
SELECT a.attrelid, a.attname::text, a.attnum, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod), pg_catalog.format_type(b.base, NULL),
       a.atttypid < 10000 AND coalesce(e.typsend, t.typsend) <> 0 AND t.typtype IN ('b', 'r', 'm')
         AND coalesce(e.typname, t.typname) NOT LIKE 'reg%' AND coalesce(e.typname, t.typname) NOT IN ('tsquery', 'int2vector', 'oidvector'),
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint nn WHERE nn.conrelid = a.attrelid AND nn.contype = 'n' AND nn.conkey = ARRAY[a.attnum] AND NOT nn.convalidated),
       a.attgenerated <> '', a.attidentity::text, coalesce(pg_catalog.pg_get_expr(d.adbin, CASE WHEN a.attgenerated = '' THEN 0 ELSE d.adrelid END), ''),
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN pg_catalog.format('%I.%I', cn.nspname, c.collname) ELSE '' END,
       coalesce(c.collisdeterministic, true)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type e ON e.typarray = t.oid
JOIN base b ON b.oid = a.atttypid AND b.typbasetype = 0
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = c.collnamespace
WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
