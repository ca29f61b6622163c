-- $1 oids of relations, $2 whether to begin at their triggers or at all else that
-- defines them: every object that is needed, with what needs it. What an
-- extension brought stands for the extension, and is not looked into.
WITH RECURSIVE seed AS (
  SELECT 'pg_class'::regclass::oid AS classid, r.oid AS objid FROM unnest($1::oid[]) r(oid) WHERE NOT $2
  UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_catalog.pg_attrdef d WHERE d.adrelid = ANY ($1::oid[]) AND NOT $2
  UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM pg_catalog.pg_constraint c WHERE c.conrelid = ANY ($1::oid[]) AND c.contype IN ('c', 'p', 'u', 'x') AND NOT $2
  UNION ALL SELECT 'pg_class'::regclass, x.indexrelid FROM pg_catalog.pg_index x WHERE x.indrelid = ANY ($1::oid[]) AND NOT $2
  UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_catalog.pg_policy p WHERE p.polrelid = ANY ($1::oid[]) AND NOT $2
  UNION ALL SELECT 'pg_trigger'::regclass, t.oid FROM pg_catalog.pg_trigger t WHERE t.tgrelid = ANY ($1::oid[]) AND t.tgname NOT LIKE 'shardctl\_%' AND NOT t.tgisinternal AND $2
),
walk(classid, objid, by_class, by_obj, extension) AS (
  SELECT classid, objid, 0::oid, 0::oid, NULL::oid FROM seed
  UNION
  SELECT e.classid, e.objid, w.classid, w.objid,
         (SELECT x.refobjid FROM pg_catalog.pg_depend x WHERE x.classid = e.classid AND x.objid = e.objid AND x.deptype = 'e')
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT d.refclassid AS classid, d.refobjid AS objid
    FROM pg_catalog.pg_depend d
    WHERE d.classid = w.classid AND d.objid = w.objid AND d.refobjid >= 16384
      AND (d.refclassid IN ('pg_type'::regclass, 'pg_proc'::regclass, 'pg_collation'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass))
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE w.classid = 'pg_class'::regclass AND c.oid = w.objid AND c.reltype = d.refobjid AND d.refclassid = 'pg_type'::regclass)
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE w.classid = 'pg_constraint'::regclass AND k.oid = w.objid AND k.contypid = d.refobjid AND d.refclassid = 'pg_type'::regclass)
    UNION ALL
    SELECT 'pg_class'::regclass, t.typrelid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
    WHERE w.classid = 'pg_type'::regclass AND t.oid = w.objid
    UNION ALL
    SELECT 'pg_constraint'::regclass, k.oid FROM pg_catalog.pg_constraint k WHERE w.classid = 'pg_type'::regclass AND k.contypid = w.objid) e
  WHERE w.extension IS NULL
)
SELECT w.classid::bigint, w.objid::bigint, w.by_class::bigint, w.by_obj::bigint,
       CASE WHEN w.extension IS NOT NULL THEN 'extension' ELSE CASE w.classid
         WHEN 'pg_type'::regclass THEN coalesce((SELECT CASE WHEN t.typtype = 'm' OR EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.typarray = t.oid) THEN '' WHEN t.typtype IN ('e', 'd', 'r') THEN 'type'
              WHEN t.typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c') THEN 'type'
              WHEN t.typtype = 'c' THEN 'row type of a table' ELSE 'base type' END
              FROM pg_catalog.pg_type t WHERE t.oid = w.objid), '')
         WHEN 'pg_proc'::regclass THEN (SELECT CASE p.prokind WHEN 'f' THEN 'function' WHEN 'p' THEN 'function' ELSE 'aggregate' END FROM pg_catalog.pg_proc p WHERE p.oid = w.objid)
         WHEN 'pg_collation'::regclass THEN 'collation'
         WHEN 'pg_operator'::regclass THEN 'operator'
         WHEN 'pg_opclass'::regclass THEN 'operator class'
         ELSE '' END END,
       CASE WHEN w.extension IS NULL THEN pg_catalog.pg_describe_object(w.classid, w.objid, 0) ELSE
         (SELECT pg_catalog.format('%s in %I', x.extname, n.nspname) FROM pg_catalog.pg_extension x JOIN pg_catalog.pg_namespace n ON n.oid = x.extnamespace WHERE x.oid = w.extension) END
FROM walk w
ORDER BY 1, 2, 3, 4
