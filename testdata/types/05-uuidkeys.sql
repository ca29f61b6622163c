-- id: T05
-- shard-key: of_uuid.k, of_domain.k
-- outcome: exact
CREATE DOMAIN ident AS uuid;
CREATE TABLE of_uuid (k uuid, id bigint, v text, PRIMARY KEY (k, id));
CREATE TABLE of_domain (k ident NOT NULL, id bigint PRIMARY KEY, v text);
INSERT INTO of_uuid SELECT k, i, 'v' || i FROM unnest('{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,0190b8e5-0000-7000-8000-000000000001}'::uuid[]) WITH ORDINALITY u(k, i);
INSERT INTO of_domain SELECT * FROM of_uuid;
