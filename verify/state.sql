-- What verification has found, on the source. Idempotent; two sessions that come at
-- once do it one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('shardctl verify state', 0));

CREATE TABLE IF NOT EXISTS shardctl.verify_pass (
    migration    text,
    pass         uuid,
    mode         text NOT NULL CHECK (mode IN ('full', 'sample', 'delta')),
    subject      text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz,
    coverage     float8 NOT NULL DEFAULT 0,
    truncated    bool NOT NULL DEFAULT false,
    reason       text NOT NULL DEFAULT '',
    PRIMARY KEY (migration, pass)
);

-- A pass belongs to a database and the epoch of its shards.
CREATE TABLE IF NOT EXISTS shardctl.verify_pass_database (
    migration text,
    pass      uuid,
    database  text,
    owner     text NOT NULL,
    epoch     bigint NOT NULL,
    PRIMARY KEY (migration, pass, database)
);

-- The tables that a pass is through with: a pass that was killed goes on behind them.
CREATE TABLE IF NOT EXISTS shardctl.verify_pass_table (
    migration text,
    pass      uuid,
    table_no  int,
    rows      bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, pass, table_no)
);

CREATE TABLE IF NOT EXISTS shardctl.verify_difference (
    migration   text,
    pass        uuid,
    no          bigint GENERATED ALWAYS AS IDENTITY,
    database    text NOT NULL,
    schema_name text NOT NULL,
    table_no    int NOT NULL,
    kind        text NOT NULL,
    direction   text NOT NULL,
    key         text[] NOT NULL,
    columns     text[] NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    repaired_at timestamptz,
    PRIMARY KEY (migration, pass, no)
);

-- Keys that were looked at and could not be judged, because they went on changing.
CREATE TABLE IF NOT EXISTS shardctl.verify_unsettled (
    migration text,
    database  text,
    table_no  int,
    key       text[],
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, database, table_no, key)
);

-- How far the log has been compared: all keys whose entries this snapshot covers
-- were judged since the chain of rounds began, or are unsettled. At is the chain's last
-- sign of life; held is since when its rounds leave more undecided than can be kept.
CREATE TABLE IF NOT EXISTS shardctl.verify_round (
    migration         text,
    database          text,
    direction         text CHECK (direction IN ('forward', 'reverse')),
    system_identifier text NOT NULL,
    snapshot          pg_snapshot NOT NULL,
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    held              timestamptz,
    PRIMARY KEY (migration, database, direction)
);

-- A table that an earlier build has made.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'shardctl.verify_round'::regclass AND attname = 'held') THEN
        ALTER TABLE shardctl.verify_round ADD COLUMN held timestamptz;
    END IF;
END $$;
