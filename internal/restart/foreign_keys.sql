-- $1 quoted tables: drops of the foreign keys among them without action and deferred.
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND condeferred AND confupdtype = 'a' AND confdeltype = 'a'
  AND conrelid = ANY ($1::text[]::regclass[]) AND confrelid = ANY ($1::text[]::regclass[])
ORDER BY conrelid, conname
