-- Every object of a database, one a line: what a command made or changed shows as a
-- difference of two runs. Object ids and the values of sequences are left out.
WITH ours AS (
    SELECT oid, nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
)
SELECT format('schema %I owner %s acl %s', nspname, nspowner::regrole, nspacl) FROM pg_namespace JOIN ours USING (oid, nspname)
UNION ALL
SELECT format('relation %I.%I kind %s owner %s acl %s options %s persistence %s rls %s %s replident %s', n.nspname, c.relname, c.relkind, c.relowner::regrole, c.relacl, c.reloptions,
       c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relreplident)
  FROM pg_class c JOIN ours n ON n.oid = c.relnamespace
UNION ALL
SELECT format('column %I.%I.%I %s notnull %s identity %s default %s acl %s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
       pg_get_expr(d.adbin, d.adrelid), a.attacl)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN ours n ON n.oid = c.relnamespace LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT format('constraint %I on %s: %s', o.conname, o.conrelid::regclass, pg_get_constraintdef(o.oid)) FROM pg_constraint o JOIN ours n ON n.oid = o.connamespace
UNION ALL
SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN ours n ON n.oid = c.relnamespace
UNION ALL
SELECT format('trigger %I on %s enabled %s: %s', t.tgname, t.tgrelid::regclass, t.tgenabled, pg_get_triggerdef(t.oid)) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
  JOIN ours n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal
UNION ALL
SELECT format('function %s owner %s acl %s: %s', p.oid::regprocedure, p.proowner::regrole, p.proacl, md5(p.prosrc)) FROM pg_proc p JOIN ours n ON n.oid = p.pronamespace
UNION ALL
SELECT format('type %I.%I', n.nspname, t.typname) FROM pg_type t JOIN ours n ON n.oid = t.typnamespace WHERE t.typrelid = 0 AND t.typelem = 0
UNION ALL
SELECT format('sequence %s from %s by %s in %s..%s cache %s cycle %s', s.seqrelid::regclass, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN ours n ON n.oid = c.relnamespace
UNION ALL
SELECT format('policy %I on %s', polname, polrelid::regclass) FROM pg_policy
UNION ALL
SELECT format('extension %I', extname) FROM pg_extension
UNION ALL
SELECT format('event trigger %I', evtname) FROM pg_event_trigger
UNION ALL
SELECT format('publication %I', pubname) FROM pg_publication
UNION ALL
SELECT format('subscription %I', subname) FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT format('slot %I', slot_name) FROM pg_replication_slots WHERE database = current_database()
UNION ALL
SELECT format('prepared transaction %s', gid) FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL
SELECT format('setting of the database: %s', setconfig) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT format('comment on %s: %s', pg_describe_object(classoid, objoid, objsubid), description) FROM pg_description
 WHERE objoid >= 16384
ORDER BY 1
