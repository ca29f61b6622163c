-- $1 table numbers, $2 schemas, $3 names: the root tables, several a number on a database; $4 and $5 our capture triggers;
-- $6 migration; $7 whether this is the source, where keys and NOT NULL count too.
-- For each table what it is like now and what was accepted. Only columns of catalogs are read, so that the answer
-- belongs to the transaction's snapshot.
WITH RECURSIVE root AS MATERIALIZED (
  SELECT w.no, c.oid, n.nspname, c.relname
  FROM unnest($1::int[], $2::text[], $3::text[]) w(no, schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema::name
  CROSS JOIN LATERAL (SELECT c.oid, c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = w.name::name OFFSET 0) c -- one look-up a table
), tree(no, oid, link) AS (
  SELECT no, oid, NULL FROM root
  UNION ALL
  SELECT t.no, i.inhrelid, pg_catalog.format('%s %s %s', i.inhparent, i.inhrelid, i.xmin)
  FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
), relations AS (
  SELECT no, pg_catalog.string_agg(pg_catalog.format('%s %s %s', oid, nspname, relname), ',' ORDER BY oid) AS print FROM root GROUP BY no
), storage AS (
  SELECT t.no, pg_catalog.string_agg(t.link, ',' ORDER BY t.link) AS links,
         pg_catalog.string_agg(pg_catalog.format('%s %s', c.oid, c.relfilenode), ',' ORDER BY c.oid) AS files
  FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid GROUP BY t.no
), triggers AS (
  SELECT t.no, pg_catalog.string_agg(pg_catalog.format('%s %s %s %s', g.tgrelid, g.oid, g.xmin, g.tgenabled), ',' ORDER BY g.tgrelid, g.oid) AS print,
         pg_catalog.count(*) FILTER (WHERE g.tgenabled <> 'A') AS off
  FROM tree t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid WHERE g.tgname IN ($4, $5) GROUP BY t.no
), kinds AS ( -- alike at all locations as a rule: few are put into words
  SELECT DISTINCT r.no, a.attname, a.atttypid, a.atttypmod, $7 AND a.attnotnull AS notnull, a.attgenerated <> '' AS generated,
         $7 AND a.attidentity <> '' AS identity, a.attcollation
  FROM root r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
), words AS (
  SELECT k.no, k.attname, pg_catalog.format_type(k.atttypid, k.atttypmod)
         || CASE WHEN k.notnull THEN ' not null' ELSE '' END
         || CASE WHEN k.generated THEN ' generated' ELSE '' END
         || CASE WHEN k.identity THEN ' identity' ELSE '' END
         || CASE WHEN k.attcollation NOT IN (0, 100) THEN ' collation ' || (SELECT l.collname FROM pg_catalog.pg_collation l WHERE l.oid = k.attcollation) ELSE '' END
         || coalesce((SELECT ' (' || pg_catalog.string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) || ')' FROM pg_catalog.pg_enum e
                      WHERE e.enumtypid IN (k.atttypid, y.typelem, y.typbasetype)), '') AS word
  FROM kinds k LEFT JOIN pg_catalog.pg_type y ON y.oid = k.atttypid
), columns AS (
  SELECT d.no, pg_catalog.jsonb_object_agg(d.attname, d.word) AS columns
  FROM (SELECT no, attname, pg_catalog.string_agg(word, ' or ' ORDER BY word) AS word FROM words GROUP BY no, attname) d
  GROUP BY d.no
), keys AS (
  SELECT r.no, pg_catalog.string_agg(a.attname, ', ' ORDER BY k.ord) AS key
  FROM root r JOIN pg_catalog.pg_index x ON x.indrelid = r.oid AND x.indisprimary
  CROSS JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY k(num, ord)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.num
  WHERE $7 AND k.ord <= x.indnkeyatts
  GROUP BY r.no
)
SELECT w.no, pg_catalog.jsonb_build_object(
         'relations', coalesce(pg_catalog.hashtextextended(relations.print, 0)::text, ''),
         'triggers', coalesce(pg_catalog.hashtextextended(triggers.print, 0)::text, ''),
         'partitions', coalesce(pg_catalog.hashtextextended(storage.links, 0)::text, ''),
         'files', coalesce(pg_catalog.hashtextextended(storage.files, 0)::text, ''),
         'off', coalesce(triggers.off, 0),
         'key', coalesce(keys.key, ''),
         'columns', coalesce(columns.columns, '{}')),
       f.fingerprint
FROM (SELECT DISTINCT no FROM unnest($1::int[]) u(no)) w
LEFT JOIN relations USING (no) LEFT JOIN storage USING (no) LEFT JOIN triggers USING (no) LEFT JOIN columns USING (no) LEFT JOIN keys USING (no)
LEFT JOIN shardctl.fingerprint f ON f.migration = $6 AND f.table_no = w.no
ORDER BY w.no
