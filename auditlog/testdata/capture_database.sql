CREATE TABLE IF NOT EXISTS "shardctl"."m_log_1_0" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    n1 bigint,
    okey bigint,
    nkey bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_1_1" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    n1 bigint,
    okey bigint,
    nkey bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $shardctl$
BEGIN
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    INSERT INTO "shardctl"."m_log_1_0" (op, loc, o1, n1, okey, nkey) VALUES ('U', TG_ARGV[0], OLD."id", NEW."id", OLD."workspace_id", NEW."workspace_id");
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO "shardctl"."m_log_1_0" (op, loc, n1, nkey) VALUES ('I', TG_ARGV[0], NEW."id", NEW."workspace_id");
  ELSE
    INSERT INTO "shardctl"."m_log_1_0" (op, loc, o1, okey) VALUES ('D', TG_ARGV[0], OLD."id", OLD."workspace_id");
  END IF;
  RETURN NULL;
END
$shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_truncate_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $shardctl$
BEGIN
  INSERT INTO "shardctl"."m_log_1_0" (op, loc) VALUES ('T', TG_ARGV[0]);
  RETURN NULL;
END
$shardctl$;
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_0"."block" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_1"('shard_0');
ALTER TABLE ONLY "shard_0"."block" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_0"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"('shard_0');
ALTER TABLE ONLY "shard_0"."block" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_1"."block" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_1"('shard_1');
ALTER TABLE ONLY "shard_1"."block" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_1"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"('shard_1');
ALTER TABLE ONLY "shard_1"."block" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_2"."block" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_1"('shard_2');
ALTER TABLE ONLY "shard_2"."block" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_2"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"('shard_2');
ALTER TABLE ONLY "shard_2"."block" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_3"."block" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_1"('shard_3');
ALTER TABLE ONLY "shard_3"."block" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_3"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"('shard_3');
ALTER TABLE ONLY "shard_3"."block" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_2_0" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    o2 bpchar COLLATE pg_catalog."C",
    n1 bigint,
    n2 bpchar COLLATE pg_catalog."C",
    okey bigint,
    nkey bigint,
    ovia bigint,
    nvia bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_2_1" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    o2 bpchar COLLATE pg_catalog."C",
    n1 bigint,
    n2 bpchar COLLATE pg_catalog."C",
    okey bigint,
    nkey bigint,
    ovia bigint,
    nvia bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_2"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $shardctl$
BEGIN
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    INSERT INTO "shardctl"."m_log_2_0" (op, loc, o1, o2, n1, n2, okey, nkey, ovia, nvia) VALUES ('U', TG_ARGV[0], OLD."block_id", OLD."no", NEW."block_id", NEW."no", OLD."workspace_id", NEW."workspace_id", OLD."block_id", NEW."block_id");
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO "shardctl"."m_log_2_0" (op, loc, n1, n2, nkey, nvia) VALUES ('I', TG_ARGV[0], NEW."block_id", NEW."no", NEW."workspace_id", NEW."block_id");
  ELSE
    INSERT INTO "shardctl"."m_log_2_0" (op, loc, o1, o2, okey, ovia) VALUES ('D', TG_ARGV[0], OLD."block_id", OLD."no", OLD."workspace_id", OLD."block_id");
  END IF;
  RETURN NULL;
END
$shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_truncate_2"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $shardctl$
BEGIN
  INSERT INTO "shardctl"."m_log_2_0" (op, loc) VALUES ('T', TG_ARGV[0]);
  RETURN NULL;
END
$shardctl$;
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_0"."comment" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_2"('shard_0');
ALTER TABLE ONLY "shard_0"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_0"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_2"('shard_0');
ALTER TABLE ONLY "shard_0"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_1"."comment" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_2"('shard_1');
ALTER TABLE ONLY "shard_1"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_1"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_2"('shard_1');
ALTER TABLE ONLY "shard_1"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_2"."comment" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_2"('shard_2');
ALTER TABLE ONLY "shard_2"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_2"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_2"('shard_2');
ALTER TABLE ONLY "shard_2"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "shard_3"."comment" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_2"('shard_3');
ALTER TABLE ONLY "shard_3"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "shard_3"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_2"('shard_3');
ALTER TABLE ONLY "shard_3"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
