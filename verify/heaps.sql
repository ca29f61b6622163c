-- $1, $2: schemas and names of tables. The relations that hold their rows.
WITH RECURSIVE tree AS (
  SELECT n.ord, c.oid FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n(schema, name, ord)
  JOIN pg_namespace s ON s.nspname = n.schema JOIN pg_class c ON c.relnamespace = s.oid AND c.relname = n.name
  UNION ALL
  SELECT t.ord, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
)
SELECT t.ord, s.nspname::text, c.relname::text, c.oid, pg_relation_filenode(c.oid),
       pg_relation_size(c.oid) / current_setting('block_size')::int, greatest(c.reltuples, 0)::float8, c.relpages,
       pg_table_size(c.oid) / greatest(pg_relation_size(c.oid), 1)
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace s ON s.oid = c.relnamespace
WHERE c.relkind <> 'p' ORDER BY t.ord, c.oid
