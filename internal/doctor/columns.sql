-- $1 quoted tables: their columns, and whether the server computes them. A table that is missing has none.
SELECT r.name, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
FROM unnest($1::text[]) r(name)
JOIN pg_catalog.pg_attribute a ON a.attrelid = pg_catalog.to_regclass(r.name) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY 1, a.attnum
