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
  IF pg_catalog.current_setting('shardctl.applier', true) OPERATOR(pg_catalog.=) 'm' THEN
    RETURN NULL;
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    INSERT INTO "shardctl"."m_log_1_0" (op, o1, n1, okey, nkey) VALUES ('U', OLD."id", NEW."id", OLD."workspace_id", NEW."workspace_id");
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO "shardctl"."m_log_1_0" (op, n1, nkey) VALUES ('I', NEW."id", NEW."workspace_id");
  ELSE
    INSERT INTO "shardctl"."m_log_1_0" (op, o1, okey) VALUES ('D', OLD."id", OLD."workspace_id");
  END IF;
  RETURN NULL;
END
$shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_truncate_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $shardctl$
BEGIN
  INSERT INTO "shardctl"."m_log_1_0" (op, loc) VALUES ('T', format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME));
  RETURN NULL;
END
$shardctl$;
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "public"."block" FOR EACH ROW EXECUTE FUNCTION "shardctl"."m_capture_1"();
ALTER TABLE ONLY "public"."block" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "public"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"();
ALTER TABLE ONLY "public"."block" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "parts"."block_1" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_1"();
ALTER TABLE ONLY "parts"."block_1" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_2_0" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    o2 bpchar COLLATE pg_catalog."C",
    n1 bigint,
    n2 bpchar COLLATE pg_catalog."C",
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
    ovia bigint,
    nvia bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_2"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $shardctl$
BEGIN
  IF pg_catalog.current_setting('shardctl.applier', true) OPERATOR(pg_catalog.=) 'm' THEN
    RETURN NULL;
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    INSERT INTO "shardctl"."m_log_2_0" (op, o1, o2, n1, n2, ovia, nvia) VALUES ('U', OLD."block_id", OLD."no", NEW."block_id", NEW."no", OLD."block_id", NEW."block_id");
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO "shardctl"."m_log_2_0" (op, n1, n2, nvia) VALUES ('I', NEW."block_id", NEW."no", NEW."block_id");
  ELSE
    INSERT INTO "shardctl"."m_log_2_0" (op, o1, o2, ovia) VALUES ('D', OLD."block_id", OLD."no", OLD."block_id");
  END IF;
  RETURN NULL;
END
$shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_truncate_2"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $shardctl$
BEGIN
  INSERT INTO "shardctl"."m_log_2_0" (op, loc) VALUES ('T', format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME));
  RETURN NULL;
END
$shardctl$;
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "public"."comment" FOR EACH ROW EXECUTE FUNCTION "shardctl"."m_capture_2"();
ALTER TABLE ONLY "public"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "public"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_2"();
ALTER TABLE ONLY "public"."comment" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_3_0" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    n1 bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE TABLE IF NOT EXISTS "shardctl"."m_log_3_1" (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    loc text,
    o1 bigint,
    n1 bigint,
    PRIMARY KEY (xid, seq)
) WITH (autovacuum_enabled = off);
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_3"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $shardctl$
BEGIN
  IF pg_catalog.current_setting('shardctl.applier', true) OPERATOR(pg_catalog.=) 'm' THEN
    RETURN NULL;
  END IF;
  IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
    INSERT INTO "shardctl"."m_log_3_0" (op, o1, n1) VALUES ('U', OLD."id", NEW."id");
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO "shardctl"."m_log_3_0" (op, n1) VALUES ('I', NEW."id");
  ELSE
    INSERT INTO "shardctl"."m_log_3_0" (op, o1) VALUES ('D', OLD."id");
  END IF;
  RETURN NULL;
END
$shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_capture_truncate_3"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $shardctl$
BEGIN
  INSERT INTO "shardctl"."m_log_3_0" (op, loc) VALUES ('T', format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME));
  RETURN NULL;
END
$shardctl$;
CREATE TRIGGER "shardctl_m_capture" AFTER INSERT OR UPDATE OR DELETE ON "ref"."plan" FOR EACH ROW EXECUTE FUNCTION "shardctl"."m_capture_3"();
ALTER TABLE ONLY "ref"."plan" ENABLE ALWAYS TRIGGER "shardctl_m_capture";
CREATE TRIGGER "shardctl_m_truncate" AFTER TRUNCATE ON "ref"."plan" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_capture_truncate_3"();
ALTER TABLE ONLY "ref"."plan" ENABLE ALWAYS TRIGGER "shardctl_m_truncate";
CREATE SEQUENCE IF NOT EXISTS "shardctl"."m_fence_hits";
CREATE OR REPLACE FUNCTION "shardctl"."m_fence_truncate_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET row_security = off AS $shardctl$
BEGIN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: rows of %I.%I moved to database %s (epoch %s)', TG_TABLE_SCHEMA, TG_TABLE_NAME, 'db0',
        coalesce((SELECT o.epoch::text FROM shardctl.ownership o WHERE o.migration = 'm' AND o.database = 'db0'), '?')),
      HINT = 'write through the router, which knows the new home';
    RETURN NULL;
END $shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_fence_1_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET row_security = off AS $shardctl$
DECLARE
  old_shard int; new_shard int;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    old_shard := ((pg_catalog.hashint8extended((OLD."workspace_id")::bigint, 8816678312871386365) % 4 + 7) % 4)::int;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    new_shard := ((pg_catalog.hashint8extended((NEW."workspace_id")::bigint, 8816678312871386365) % 4 + 7) % 4)::int;
  END IF;
  IF TG_OP <> 'DELETE' AND new_shard IS NULL THEN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: row of %I.%I refused: it has no key, so that no database would own it', TG_TABLE_SCHEMA, TG_TABLE_NAME), HINT = 'give the row a key';
  END IF;
  IF old_shard = ANY ('{0,1,2,3}'::int[]) OR new_shard = ANY ('{0,1,2,3}'::int[]) THEN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: this row of %I.%I moved to database %s (epoch %s)', TG_TABLE_SCHEMA, TG_TABLE_NAME, 'db0',
        coalesce((SELECT o.epoch::text FROM shardctl.ownership o WHERE o.migration = 'm' AND o.database = 'db0'), '?')),
      HINT = 'write through the router, which knows the new home';
  END IF;
  RETURN NULL;
END $shardctl$;
CREATE OR REPLACE FUNCTION "shardctl"."m_fence_2_1"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET row_security = off AS $shardctl$
DECLARE
  old_shard int; new_shard int;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    IF OLD."block_id" IS NULL THEN
      old_shard := NULL;
    ELSE
      SELECT ((pg_catalog.hashint8extended((p1."workspace_id")::bigint, 8816678312871386365) % 4 + 7) % 4)::int INTO old_shard FROM "public"."block" p1 WHERE p1."id" OPERATOR(pg_catalog.=) OLD."block_id" FOR KEY SHARE;
    END IF;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    IF NEW."block_id" IS NULL THEN
      new_shard := NULL;
    ELSE
      SELECT ((pg_catalog.hashint8extended((p1."workspace_id")::bigint, 8816678312871386365) % 4 + 7) % 4)::int INTO new_shard FROM "public"."block" p1 WHERE p1."id" OPERATOR(pg_catalog.=) NEW."block_id" FOR KEY SHARE;
      IF NOT FOUND THEN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: row of %I.%I refused: its parent in public.block is not here', TG_TABLE_SCHEMA, TG_TABLE_NAME), HINT = 'write the parent first, through the router';
      END IF;
    END IF;
  END IF;
  IF TG_OP <> 'DELETE' AND new_shard IS NULL THEN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: row of %I.%I refused: it has no key, so that no database would own it', TG_TABLE_SCHEMA, TG_TABLE_NAME), HINT = 'give the row a key';
  END IF;
  IF old_shard = ANY ('{0,1,2,3}'::int[]) OR new_shard = ANY ('{0,1,2,3}'::int[]) THEN
    PERFORM nextval('"shardctl"."m_fence_hits"');
    RAISE EXCEPTION USING ERRCODE = '25006', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('shardctl migration m: this row of %I.%I moved to database %s (epoch %s)', TG_TABLE_SCHEMA, TG_TABLE_NAME, 'db0',
        coalesce((SELECT o.epoch::text FROM shardctl.ownership o WHERE o.migration = 'm' AND o.database = 'db0'), '?')),
      HINT = 'write through the router, which knows the new home';
  END IF;
  RETURN NULL;
END $shardctl$;
CREATE TRIGGER "shardctl_m_fence_1" AFTER INSERT OR UPDATE OR DELETE ON "public"."block" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_fence_1_1"();
ALTER TABLE ONLY "public"."block" DISABLE TRIGGER "shardctl_m_fence_1";
ALTER TABLE ONLY "parts"."block_1" DISABLE TRIGGER "shardctl_m_fence_1";
CREATE TRIGGER "shardctl_m_fence_truncate_1" BEFORE TRUNCATE ON "public"."block" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_fence_truncate_1"();
ALTER TABLE ONLY "public"."block" DISABLE TRIGGER "shardctl_m_fence_truncate_1";
CREATE TRIGGER "shardctl_m_fence_truncate_1" BEFORE TRUNCATE ON "parts"."block_1" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_fence_truncate_1"();
ALTER TABLE ONLY "parts"."block_1" DISABLE TRIGGER "shardctl_m_fence_truncate_1";
CREATE TRIGGER "shardctl_m_fence_1" AFTER INSERT OR UPDATE OR DELETE ON "public"."comment" FOR EACH ROW WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_fence_2_1"();
ALTER TABLE ONLY "public"."comment" DISABLE TRIGGER "shardctl_m_fence_1";
CREATE TRIGGER "shardctl_m_fence_truncate_1" BEFORE TRUNCATE ON "public"."comment" FOR EACH STATEMENT WHEN (pg_catalog.current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION "shardctl"."m_fence_truncate_1"();
ALTER TABLE ONLY "public"."comment" DISABLE TRIGGER "shardctl_m_fence_truncate_1";
