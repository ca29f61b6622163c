-- id: T04
-- shard-key: of_text.k, of_varchar.k, of_char.k, of_domain.k
-- outcome: exact
CREATE DOMAIN slug AS varchar(40) CHECK (VALUE <> '-');
CREATE TABLE of_text (k text, id bigint, v text, PRIMARY KEY (k, id));
CREATE TABLE of_varchar (k varchar(20) NOT NULL, id bigint PRIMARY KEY, v text);
CREATE TABLE of_char (k char(20), id bigint, v text, PRIMARY KEY (id, k));
CREATE TABLE of_domain (k slug COLLATE "C", id bigint, v text, PRIMARY KEY (k, id));
INSERT INTO of_text SELECT k, i, 'v' || i FROM unnest(ARRAY['', ' ', 'a', 'A', 'a ', '\N', '\.', E'tab\tline\n', '"q''', U&'\00E9', U&'\0065\0301', U&'\+10FFFF', repeat('k', 2000)]) WITH ORDINALITY u(k, i);
INSERT INTO of_varchar SELECT left(k, 20), id, v FROM of_text;
INSERT INTO of_char SELECT left(k, 20), id, v FROM of_text;
INSERT INTO of_domain SELECT left(k, 20), id, v FROM of_text;
-- live:
UPDATE of_text SET k = 'b' WHERE k = 'a';
UPDATE of_char SET k = rtrim(k) || 'x' WHERE id < 4;
