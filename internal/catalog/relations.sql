-- $1 schemas, $2 names: each asked-for table with what exists under that name.
SELECT w.schema, w.name, coalesce(c.oid, 0::oid), coalesce(pg_catalog.pg_relation_filenode(c.oid), 0::oid),
       coalesce(c.relkind, ' '::"char")::text, coalesce(pg_catalog.pg_get_userbyid(c.relowner)::text, ''),
       coalesce(c.relrowsecurity, false), coalesce(c.relforcerowsecurity, false), coalesce(c.relpersistence, 'p'::"char")::text,
       coalesce((SELECT i.inhparent::regclass::text FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid ORDER BY i.inhseqno LIMIT 1), ''),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid),
       coalesce((SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.ord)
                 FROM pg_catalog.pg_index x, unnest(x.indkey::int2[]) WITH ORDINALITY k(num, ord), pg_catalog.pg_attribute a
                 WHERE x.indrelid = c.oid AND x.indisprimary AND k.ord <= x.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.num), '{}'),
       coalesce((SELECT pg_catalog.array_agg(pg_catalog.format('OPERATOR(%I.%s)', opn.nspname, op.oprname) ORDER BY k.ord)
                 FROM pg_catalog.pg_index x, unnest(x.indclass::oid[]) WITH ORDINALITY k(opc, ord), pg_catalog.pg_opclass oc,
                      pg_catalog.pg_amop am, pg_catalog.pg_operator op, pg_catalog.pg_namespace opn
                 WHERE x.indrelid = c.oid AND x.indisprimary AND oc.oid = k.opc AND am.amopfamily = oc.opcfamily AND am.amopstrategy = 3
                   AND am.amoplefttype = oc.opcintype AND am.amoprighttype = oc.opcintype AND op.oid = am.amopopr AND opn.oid = op.oprnamespace), '{}'),
       coalesce((SELECT p.condeferrable FROM pg_catalog.pg_constraint p WHERE p.conrelid = c.oid AND p.contype = 'p'), false),
       coalesce((SELECT x.indisexclusion FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indisprimary), false),
       coalesce((SELECT pg_catalog.string_agg(pg_catalog.format('%s.%s', sn.nspname, sc.relname), ', ' ORDER BY sn.nspname, sc.relname)
                 FROM pg_catalog.pg_class sc JOIN pg_catalog.pg_namespace sn ON sn.oid = sc.relnamespace
                 WHERE c.oid IS NULL AND sc.relkind IN ('r', 'p') AND lower(sc.relname) = lower(w.name)
                   AND sn.nspname NOT IN ('pg_catalog', 'information_schema') AND sn.nspname NOT LIKE 'pg\_toast%'), '')
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, ord)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
ORDER BY w.ord
