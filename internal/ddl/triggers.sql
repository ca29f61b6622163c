-- $1 quoted relations, $2 trigger names (a pair each): where such a trigger is,
-- on the relation itself or, as a copy of it, on a partition.
SELECT w.relation, w.name, pg_catalog.format('%I.%I', n.nspname, c.relname)
FROM unnest($1::text[], $2::text[]) w(relation, name)
CROSS JOIN LATERAL (SELECT pg_catalog.to_regclass(w.relation)::oid AS relid
                    UNION SELECT p.relid::oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass(w.relation)) p) r
JOIN pg_catalog.pg_class c ON c.oid = r.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid AND t.tgname = w.name
WHERE c.oid = pg_catalog.to_regclass(w.relation) OR t.tgparentid <> 0
ORDER BY 1, 3, 2
