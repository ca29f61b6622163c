-- id: T10
-- shard-key: all tables: k
-- outcome: refuse
-- refused: key.type public.of_bool.k; key.type public.of_bytea.k; key.type public.of_date.k; key.type public.of_enum.k; key.type public.of_float.k; key.type public.of_numeric.k; key.type public.of_pair.k; key.type public.of_range.k; key.type public.of_timestamp.k; key.type public.of_array.k; key.type public.of_name.k; key.type public.of_oid.k; key.type public.of_citext.k; key.type public.of_folded.k
CREATE EXTENSION citext;
CREATE TYPE mood AS ENUM ('sad');
CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN folded AS citext;
CREATE TABLE of_bool (id bigint PRIMARY KEY, k bool);
CREATE TABLE of_bytea (id bigint PRIMARY KEY, k bytea);
CREATE TABLE of_date (id bigint PRIMARY KEY, k date);
CREATE TABLE of_enum (id bigint PRIMARY KEY, k mood);
CREATE TABLE of_float (id bigint PRIMARY KEY, k float8);
CREATE TABLE of_numeric (id bigint PRIMARY KEY, k numeric);
CREATE TABLE of_pair (id bigint PRIMARY KEY, k pair);
CREATE TABLE of_range (id bigint PRIMARY KEY, k int4range);
CREATE TABLE of_timestamp (id bigint PRIMARY KEY, k timestamptz);
CREATE TABLE of_array (id bigint PRIMARY KEY, k int[]);
CREATE TABLE of_name (id bigint PRIMARY KEY, k name);
CREATE TABLE of_oid (id bigint PRIMARY KEY, k oid);
CREATE TABLE of_citext (id bigint PRIMARY KEY, k citext);
CREATE TABLE of_folded (id bigint PRIMARY KEY, k folded);
