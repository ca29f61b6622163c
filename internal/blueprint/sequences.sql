-- $1 oids of tables: the sequences that their columns own or draw from.
SELECT n.nspname::text, c.relname::text, c.oid::regclass::text, pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, s.seqcycle,
       pg_catalog.pg_get_userbyid(c.relowner)::text, coalesce(tn.nspname::text, ''), coalesce(t.relname::text, ''), coalesce(a.attname::text, '')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid
LEFT JOIN pg_catalog.pg_depend o ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.refclassid = 'pg_class'::regclass AND o.refobjsubid > 0
  AND o.deptype IN ('a', 'i') AND o.refobjid = ANY ($1::oid[])
LEFT JOIN pg_catalog.pg_class t ON t.oid = o.refobjid
LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = o.refobjid AND a.attnum = o.refobjsubid
WHERE o.objid IS NOT NULL
   OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
              WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND f.adrelid = ANY ($1::oid[]))
ORDER BY 1, 2
