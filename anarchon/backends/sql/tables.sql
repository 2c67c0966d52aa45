-- The tables of a store, in a schema of any name.
--
-- Texts that are compared or sorted have the collation "C": by code point, on every server.

CREATE TABLE IF NOT EXISTS %schema%.anarchon_format (
    version integer NOT NULL
);

INSERT INTO %schema%.anarchon_format
SELECT 1 WHERE NOT EXISTS (SELECT FROM %schema%.anarchon_format);

CREATE TABLE IF NOT EXISTS %schema%.anarchon_namespace (
    namespace text COLLATE "C" PRIMARY KEY,
    paused_until_ms bigint NOT NULL
);

-- A row for each job is what its claims queue at; see common.sql.
CREATE TABLE IF NOT EXISTS %schema%.anarchon_job (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    floor_ms bigint NOT NULL DEFAULT -9007199254740992,
    paused_until_ms bigint NOT NULL DEFAULT 0,
    records bigint NOT NULL DEFAULT 0,
    skips bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, job)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000
);

-- `end_ms` is the lease's end, of a waiting run the moment of its release, or of its order. A run
-- that was ordered and that nobody has had yet waits after attempt 0.
--
-- The attempt belongs to the primary key so that a takeover changes a key, and a renewal
-- doesn't: FOR KEY SHARE of a user's transaction holds the one off and lets the other through.
-- No column that a renewal changes is in an index, and half of each page is left free, so
-- that it changes one row in its page and no index.
CREATE TABLE IF NOT EXISTS %schema%.anarchon_run (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    slot_ms bigint NOT NULL,
    manual text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    state text NOT NULL,
    owner text COLLATE "C" NOT NULL,
    end_ms bigint NOT NULL,
    lease_ms bigint NOT NULL,
    heartbeat_ms bigint NOT NULL,
    beat bigint NOT NULL,
    fence bigint NOT NULL,
    deaths bigint NOT NULL,
    budget bigint NOT NULL,
    catch_up_ms bigint NOT NULL,
    cancel integer NOT NULL,
    status text,
    detail text,
    decided_by text COLLATE "C" NOT NULL,
    since_ms bigint NOT NULL,
    place_ms bigint NOT NULL,
    PRIMARY KEY (namespace, job, slot_ms, manual, attempt)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000
);

-- The open runs of a job; and a second line of defence: where overlap is skipped, a run
-- starts at one and the same place, and two can't be there. Where it is allowed the place is
-- the slot. A run keeps its place through every takeover, whatever its job says by then.
CREATE UNIQUE INDEX IF NOT EXISTS anarchon_open
ON %schema%.anarchon_run (namespace, job, place_ms)
WHERE state <> 'closed' AND manual = '';

-- The manual runs that are open; what the fleet is asked for is among them. See orders.sql.
CREATE INDEX IF NOT EXISTS anarchon_orders
ON %schema%.anarchon_run (namespace, job, slot_ms, manual)
WHERE state <> 'closed' AND manual <> '';

CREATE TABLE IF NOT EXISTS %schema%.anarchon_attempt (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    slot_ms bigint NOT NULL,
    manual text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    status text NOT NULL,
    detail text,
    reason text NOT NULL,
    instance text,
    started_ms bigint,
    finished_ms bigint,
    duration_ms bigint,
    error text,
    traceback text,
    PRIMARY KEY (namespace, job, slot_ms, manual, attempt)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000
);

CREATE INDEX IF NOT EXISTS anarchon_history
ON %schema%.anarchon_attempt (namespace, slot_ms, job, manual, attempt);

CREATE TABLE IF NOT EXISTS %schema%.anarchon_checkpoint (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    slot_ms bigint NOT NULL,
    manual text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (namespace, job, slot_ms, manual)
);

-- What a handler's own transaction has completed: this row and the effect of the handler are
-- committed together. It is inserted beside a lock FOR KEY SHARE of the run's row, which lets
-- renewals through, and is removed by whoever closes the run.
CREATE TABLE IF NOT EXISTS %schema%.anarchon_completion (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    slot_ms bigint NOT NULL,
    manual text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    done_ms bigint NOT NULL,
    PRIMARY KEY (namespace, job, slot_ms, manual, attempt)
);

-- What each instance says of itself, for people; see instances.sql. It says so again and again, so
-- no column of that is in an index, and half of each page is left free.
CREATE TABLE IF NOT EXISTS %schema%.anarchon_instance (
    namespace text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    seen_ms bigint NOT NULL,
    expected_ms bigint NOT NULL,
    state text NOT NULL,
    about text NOT NULL,
    PRIMARY KEY (namespace, token)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000
);

-- The newest slot of a job of which somebody told that nobody has finished it, and who.
CREATE TABLE IF NOT EXISTS %schema%.anarchon_alert (
    namespace text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    slot_ms bigint NOT NULL,
    token text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, job)
);
