-- id: T03
-- shard-key: of_int2.k, of_int4.k, of_int8.k, of_domain.k
-- outcome: exact
CREATE DOMAIN tenant AS bigint CHECK (VALUE <> 7);
CREATE DOMAIN tenants AS tenant;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a numeric, b text);
CREATE DOMAIN sound AS pair;
CREATE TABLE of_int2 (k smallint, id bigint, v text, PRIMARY KEY (k, id));
CREATE TABLE of_int4 (k integer, id bigint, v text, PRIMARY KEY (id, k));
CREATE TABLE of_int8 (k bigint NOT NULL, id bigint PRIMARY KEY, v text);
CREATE TABLE of_domain (k tenants, id bigint, v text, PRIMARY KEY (k, id));
INSERT INTO of_int2 SELECT k, i, 'v' || i FROM unnest('{-32768,-1,0,1,32767}'::int2[]) WITH ORDINALITY u(k, i);
INSERT INTO of_int4 SELECT k, i, 'v' || i FROM unnest('{-2147483648,-1,0,1,2147483647}'::int[]) WITH ORDINALITY u(k, i);
INSERT INTO of_int8 SELECT k, i, 'v' || i FROM unnest('{-9223372036854775808,-1,0,1,9223372036854775807}'::bigint[]) WITH ORDINALITY u(k, i);
INSERT INTO of_domain SELECT k, i, 'v' || i FROM unnest('{-9223372036854775808,-1,0,1,9223372036854775807}'::bigint[]) WITH ORDINALITY u(k, i);
-- One table for each type of a primary key's part.
CREATE TABLE parts_of_number (k int NOT NULL, id bigint, f float8, g real, n numeric, m money, o oid, x xid8, l pg_lsn, b bool, v text, PRIMARY KEY (id, f, g, n, m, o, x, l, b));
INSERT INTO parts_of_number SELECT i, i, f::float8, f::float8::real, n::numeric, m::numeric::money, o::oid, x::xid8, '0/0'::pg_lsn + i, i % 2 = 0, 'v' || i
 FROM unnest('{NaN,Infinity,-Infinity,-0,0,1.5}'::text[], '{NaN,Infinity,-Infinity,1.0,1.00,-0.00}'::text[], '{0,-1.5,1,92233720368547758.07,3,4}'::text[], '{0,1,2,3,4294967295,5}'::text[], '{0,1,2,3,18446744073709551615,5}'::text[]) WITH ORDINALITY u(f, n, m, o, x, i);
CREATE TABLE parts_of_words (k int NOT NULL, id bigint, t text, vc varchar(9), c char(4), bp bpchar, ch "char", nm name, ba bytea, u uuid, bi bit(3), vb varbit, jb jsonb, tv tsvector, tq tsquery, v text,
 PRIMARY KEY (id, t, vc, c, bp, ch, nm, ba, u, bi, vb, jb, tv, tq));
INSERT INTO parts_of_words SELECT i, i, w, left(w, 9), left(w, 4), left(w, 4)::bpchar, left(w, 1)::"char", left(w, 20)::name, convert_to(w, 'UTF8'), md5(w)::uuid, i::int::bit(3), i::int::bit(3)::varbit,
  to_jsonb(w), to_tsvector('simple', w), plainto_tsquery('simple', w), 'v' || i FROM unnest(ARRAY['', ' ', 'a b  ', '\N', E'\t\n"''', 'ÄÖ' || U&'\+10FFFF']) WITH ORDINALITY u(w, i);
CREATE TABLE parts_of_time (k int NOT NULL, id bigint, d date, t time, tz timetz, ts timestamp, tsz timestamptz, iv interval, v text, PRIMARY KEY (id, d, t, tz, ts, tsz, iv));
INSERT INTO parts_of_time SELECT i, i, a::date, b::time, b::timetz, a::timestamp, a::timestamptz, iv::interval, 'v' || i FROM unnest('{infinity,-infinity,4714-11-24 00:00 BC,2024-02-29 01:02:03.456}'::text[],
  '{00:00,24:00,12:00:00.000001,23:59}'::text[], '{24:00:00,1 day,-1 mon,178000000 years}'::text[]) WITH ORDINALITY u(a, b, iv, i);
CREATE TABLE parts_of_net (k int NOT NULL, id bigint, i inet, c cidr, m macaddr, m8 macaddr8, v text, PRIMARY KEY (id, i, c, m, m8));
INSERT INTO parts_of_net VALUES (1, 1, '10.0.0.1/24', '10.0.0.0/8', '00:00:00:00:00:01', '00:00:00:00:00:00:00:01', 'a'), (2, 2, '10.0.0.1', '::/0', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff', 'b'), (4, 3, '::1', '10.0.0.0/8', '00:00:00:00:00:02', '00:00:00:00:00:00:00:02', NULL);
CREATE TABLE parts_made (k int NOT NULL, id bigint, e mood, p pair, s sound, r numrange, mr int4multirange, a text[], na numeric[], rc regtype, v text, PRIMARY KEY (id, e, p, s, r, mr, a, na, rc));
INSERT INTO parts_made VALUES (1, 1, 'sad', '(1.0,a)', '(1.0,)', '[1.0,1.00]', '{}', '{}', '{1.0}', 'int4', 'a'), (2, 2, 'ok', '(,)', '(NaN,"")', 'empty', '{(,)}', '[0:1]={a,NULL}', '{{1.00},{NULL}}', '"char"', 'b'),
 (5, 3, 'ok', '(NaN,"q\\,""")', '(-0.0,x)', '(,)', '{[1,2)}', '{{a},{"b,\\"}}', '{}', 'timestamptz', NULL);
-- live:
UPDATE parts_of_number SET f = -f WHERE f = 0;
UPDATE parts_of_number SET n = n * 1.00 WHERE n = 1;
UPDATE parts_of_words SET c = 'ab', bp = 'cd  ', jb = '1.0' WHERE id = 3;
UPDATE parts_of_words SET jb = '1.00', bp = 'cd ' WHERE id = 3;
UPDATE parts_of_time SET iv = '1 day' WHERE iv = '24:00:00';
UPDATE parts_of_time SET iv = '24:00:00' WHERE id = 2;
UPDATE parts_of_time SET tz = '13:00+01' WHERE id = 3;
UPDATE parts_of_net SET i = '10.0.0.1/32' WHERE id = 1;
UPDATE parts_made SET p = '(1.00,a)', na = '{1.00}' WHERE id = 1;
UPDATE parts_made SET r = '[1.00,1.0]' WHERE id = 1;
DELETE FROM parts_made WHERE id = 2;
-- after-cutover:
UPDATE parts_of_number SET f = -f WHERE f = 0;
UPDATE parts_of_number SET n = 1.0 WHERE n = 1;
UPDATE parts_of_words SET jb = '1.0', bp = 'cd   ' WHERE id = 3;
UPDATE parts_of_time SET iv = '24:00:00' WHERE iv = '1 day';
UPDATE parts_made SET p = '(1.000,a)', na = '{1.000}' WHERE id = 1;
DELETE FROM parts_made WHERE id = 3;
