-- $1 log segments by name, $2 capture functions by name, all in schema shardctl: what is there of a log.
SELECT (SELECT coalesce(jsonb_object_agg(x.relname, x.columns), '{}')
        FROM (SELECT c.relname, jsonb_object_agg(a.attname, pg_catalog.format_type(a.atttypid, NULL)) AS columns
              FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
              WHERE c.relnamespace = pg_catalog.to_regnamespace('shardctl') AND c.relname = ANY ($1::text[])
                AND a.attnum > 0 AND NOT a.attisdropped
              GROUP BY c.relname) x),
       (SELECT coalesce(jsonb_object_agg(p.proname, p.prosrc), '{}')
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = pg_catalog.to_regnamespace('shardctl') AND p.proname = ANY ($2::text[]) AND p.prosecdef)
