-- $1 table oids: the columns that a key may be, with how many values each has (NULL: not known) and whether an index
-- leads with it. Of a partitioned table the statistics of the whole are meant.
SELECT a.attrelid, a.attname::text,
       (SELECT max(s.n_distinct)::float8 FROM pg_catalog.pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
        AND s.inherited = (c.relkind = 'p')),
       EXISTS (SELECT FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indkey[0] = a.attnum AND x.indisvalid AND x.indpred IS NULL)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
