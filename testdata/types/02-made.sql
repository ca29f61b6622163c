-- id: T02
-- shard-key: all tables: k
-- outcome: exact
CREATE SCHEMA "Types, odd";
CREATE SCHEMA ext;
CREATE EXTENSION citext SCHEMA ext;
CREATE EXTENSION hstore SCHEMA ext;
CREATE EXTENSION ltree SCHEMA ext;
CREATE EXTENSION cube SCHEMA ext;
CREATE EXTENSION isn SCHEMA ext;
CREATE EXTENSION seg SCHEMA ext;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', '', 'it''s "so", \N', 'ünïcode');
ALTER TYPE mood ADD VALUE 'before all' BEFORE 'sad';
CREATE TYPE "Types, odd"."a type's name of sixty-three bytes, or as many as fit: ééé" AS ENUM ('a');
CREATE DOMAIN score AS numeric CHECK (VALUE >= 0);
CREATE DOMAIN better AS score CHECK (VALUE < 100) DEFAULT 1;
CREATE DOMAIN words AS text[] CHECK (cardinality(VALUE) < 4);
CREATE DOMAIN code AS char(3) CHECK (VALUE <> 'xxx');
CREATE DOMAIN folded AS ext.citext CHECK (VALUE <> 'no');
CREATE DOMAIN moods AS mood[];
CREATE TYPE pair AS (a int, "B c" text, f float8, n numeric, m mood);
CREATE TYPE nested AS (p pair, ps pair[], w words, h ext.hstore);
CREATE DOMAIN sound AS pair CHECK ((VALUE).a IS NULL OR (VALUE).a > 0);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE floatrange AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE TYPE citextrange AS RANGE (subtype = ext.citext);
CREATE DOMAIN during AS tstzrange CHECK (NOT isempty(VALUE));
INSERT INTO kind VALUES
 ('made', 'mood', ARRAY['sad', 'before all', '', 'it''s "so", \N', 'ünïcode']),
 ('made', '"Types, odd"."a type''s name of sixty-three bytes, or as many as fit: ééé"', '{a}'),
 ('made', 'score', '{0,1.0,1.00,NaN}'),
 ('made', 'better', '{0.00,99.9}'),
 ('made', 'code', ARRAY['', 'a', 'abc']),
 ('made', 'words', ARRAY['{}', '{NULL,"NULL",""}', '[0:1]={a,"b,c"}', '{{a},{b}}']),
 ('made', 'moods', ARRAY['{}', '{sad,NULL}', '[0:0]={""}']),
 ('made', 'pair', ARRAY['(,,,,)', '(1,"",-0,1.00,sad)', '(2147483647,"a""b\\,(",NaN,NaN,"")', E'(,"\n",Infinity,-0.000,ok)']),
 ('made', 'nested', ARRAY['(,,,)', '("(1,""x y"",0.1,1.0,ok)","{""(,,,,)"",NULL}","{a,NULL}","""k""=>NULL")', '("(,,,,)",{},{},"")']),
 ('made', 'sound', ARRAY['(,,,,)', '(1,a,-0,1.00,happy)']),
 ('made', 'textrange', ARRAY['empty', '[a,b)', '("","\\,]"]', '(,)']),
 ('made', 'floatrange', ARRAY['empty', '[-0,0]', '[-Infinity,NaN]', '(,)']),
 ('made', 'textmultirange', ARRAY['{}', '{[a,b),[c,d]}']),
 ('made', 'floatmultirange', ARRAY['{}', '{[-0,0],(1,Infinity)}']),
 ('made', 'during', ARRAY['(,)', '[2024-01-01 00:00+00,infinity]']),
 ('brought', 'ext.citext', ARRAY['', 'Abc', 'ABC', 'abc ', '\N']),
 ('brought', 'folded', ARRAY['', 'Yes', 'YES']),
 ('brought', 'citextrange', ARRAY['empty', '[A,b)', '[a,B)']),
 ('brought', 'ext.hstore', ARRAY['', '"a"=>NULL,"b"=>"NULL"', '""=>""', E'"k\n"=>"\\"q\\\\"']),
 ('brought', 'ext.ltree', ARRAY['', 'Top.A_1', 'a.b.c']),
 ('brought', 'ext.lquery', ARRAY['*', 'a.*{1,2}.!b|c@', '*.x%']),
 ('brought', 'ext.ltxtquery', ARRAY['a & b', '!x@ | y*']),
 ('brought', 'ext.cube', ARRAY['(0)', '(-0),(1)', '(1,2,3),(4,5,1e-300)']),
 ('brought', 'ext.seg', ARRAY['1.0', '1.00', '<5', '1.5 .. 2.50', '~1']),
 ('brought', 'ext.isbn13', ARRAY['978-0-393-04002-9', '979-10-90636-07-1']),
 ('brought', 'ext.ean13', ARRAY['000-0000000000', '220-0356010809']),
 ('brought', 'ext.upc', ARRAY['220356483481']);
SELECT pg_temp.matrix();
