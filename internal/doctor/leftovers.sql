-- $1 migration, $2 registered names, $3 quoted tables of ours, $4 triggers that go with such a table and are not
-- registered: what carries the migration's name here, and is neither.
SELECT o.kind, o.name
FROM (
  SELECT 'table' AS kind, pg_catalog.format('"shardctl"."%s"', c.relname) AS name
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'shardctl' AND c.relkind IN ('r', 'S')
    AND c.relname ~ ('^' || $1::text || '_(log_[0-9]+_[01]|tomb_[0-9]+|fence_hits|switch)$')
  UNION ALL
  SELECT 'function', pg_catalog.format('"shardctl"."%s"()', p.proname)
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = 'shardctl'
    AND p.proname ~ ('^' || $1::text || '_(capture_[0-9]+|capture_truncate_[0-9]+|fence_[0-9]+_[0-9]+|fence_truncate_[0-9]+|closed|(guard|store|hand_down)_[0-9]+(_[0-9]+)?)$')
  UNION ALL
  SELECT 'trigger', pg_catalog.format('"%s" ON "%s"."%s"', replace(t.tgname, '"', '""'), replace(n.nspname, '"', '""'), replace(c.relname, '"', '""'))
  FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE t.tgparentid = 0 AND t.tgname ~ ('^shardctl_' || $1::text || '_(capture|truncate|fence_[0-9]+|fence_truncate_[0-9]+|closed|guard|store|hand_down)$')
    AND NOT (t.tgname = ANY ($4::text[]) AND EXISTS (
      SELECT FROM unnest($3::text[]) w(name)
      WHERE pg_catalog.to_regclass(w.name) = c.oid OR c.oid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass(w.name)) p)))
) o
WHERE o.name <> ALL ($2::text[])
ORDER BY 1, 2
