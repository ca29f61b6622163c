-- $1 oids of relations: checks and keys of their own. A partition's copy of its
-- parent's constraint comes with the partition. NOT NULL comes with its column, unless
-- it is not validated (from version 18 on).
SELECT c.conrelid, c.conname::text, c.contype::text, pg_catalog.pg_get_constraintdef(c.oid), coalesce(i.reloptions, '{}'), c.convalidated,
       coalesce((SELECT x.indisreplident FROM pg_catalog.pg_index x WHERE x.indexrelid = i.oid), false)
FROM pg_catalog.pg_constraint c
LEFT JOIN pg_catalog.pg_class i ON i.oid = c.conindid
WHERE c.conrelid = ANY ($1::oid[]) AND (c.contype IN ('c', 'p', 'u', 'x') OR c.contype = 'n' AND NOT c.convalidated) AND c.conparentid = 0
  AND (c.contype NOT IN ('c', 'n') OR c.coninhcount = 0)
ORDER BY c.conrelid, c.conname
