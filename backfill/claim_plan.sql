-- $1 migration: the next relation with pages that are not handed out, with its size now.
SELECT plan, table_no, leaf, relation, filenode, pages, bytes, next_page, next_no,
       coalesce(pg_catalog.pg_relation_size(relid::regclass) / current_setting('block_size')::bigint, pages)
FROM shardctl.backfill_plan
WHERE migration = $1 AND next_page IS NOT NULL
ORDER BY table_no, leaf
LIMIT 1
FOR UPDATE
