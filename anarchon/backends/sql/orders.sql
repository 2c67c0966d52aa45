-- Ordered runs: what the whole fleet is asked for. They are manual runs that wait for their first
-- attempt, and their tokens say what they are: `trigger-…`, or `backfill-…` for a past slot.
--
-- They queue at their job's row as all starts do. Of the backfills of a job one runs at a time,
-- the oldest first; one whose runner died is closed by whoever starts the next.
--
-- Mostly nobody has ordered anything, so an operation looks once into the index of open manual
-- runs, which is empty then, before it asks about any job.

-- Whether any ordered run is open. (Two patterns with OR would be two looks.)
CREATE OR REPLACE FUNCTION %schema%.anarchon_any_order_v1(space text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN EXISTS (
        SELECT FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.state <> 'closed' AND x.manual <> ''
            AND x.manual ~ '^(trigger|backfill)-'
    );
END
$body$;

-- The ordered runs of a job that may be claimed, oldest first, at most ten: all that wait, but of
-- backfills the first alone, while none is running. The one that was asked about isn't named.
CREATE OR REPLACE FUNCTION %schema%.anarchon_takeable_v1(
    space text, name text, asked_ms bigint, asked_manual text, now_ms bigint
) RETURNS SETOF %schema%.anarchon_run LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN QUERY
    SELECT (o.run).* FROM (
        SELECT x AS run, x.slot_ms, x.manual, x.state, b.is_backfill,
            row_number() OVER (
                PARTITION BY b.is_backfill, x.state ORDER BY x.slot_ms, x.manual
            ) AS nth,
            bool_or(b.is_backfill AND x.state = 'running' AND x.end_ms > now_ms) OVER () AS is_busy
        FROM %schema%.anarchon_run x
        CROSS JOIN LATERAL (SELECT x.manual LIKE 'backfill-%' AS is_backfill) AS b
        WHERE x.namespace = space AND x.job = name AND x.state <> 'closed' AND x.manual <> ''
            AND x.manual ~ '^(trigger|backfill)-'
    ) AS o
    WHERE o.state = 'waiting' AND (NOT o.is_backfill OR o.nth = 1 AND NOT o.is_busy)
        AND (o.slot_ms <> asked_ms OR o.manual <> asked_manual)
    ORDER BY o.slot_ms, o.manual LIMIT 10;
END
$body$;

-- The same in words.
CREATE OR REPLACE FUNCTION %schema%.anarchon_ordered_v1(
    space text, name text, asked_ms bigint, asked_manual text, now_ms bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN (
        SELECT json_agg(%schema%.anarchon_named_v1(o, now_ms) ORDER BY o.slot_ms, o.manual)
        FROM %schema%.anarchon_takeable_v1(space, name, asked_ms, asked_manual, now_ms) AS o
    );
END
$body$;

-- Add to the other open runs, in words, of each wish of a claim what is ordered of its job, and
-- behind the last one what is ordered of other jobs: those with triggered runs first.
CREATE OR REPLACE FUNCTION %schema%.anarchon_beside_v1(
    space text, items jsonb, opened json[], now_ms bigint
) RETURNS json[] LANGUAGE plpgsql STABLE AS $body$
DECLARE
    w record;
    last CONSTANT integer := jsonb_array_length(items);
    others bigint := 0;
BEGIN
    FOR w IN
        SELECT i.n, %schema%.anarchon_ordered_v1(
            space, i.wish->>0, (i.wish->>1)::bigint, i.wish->>12, now_ms
        ) AS runs
        FROM jsonb_array_elements(items) WITH ORDINALITY AS i (wish, n)
    LOOP
        IF w.runs IS NOT NULL THEN
            opened[w.n] := %schema%.anarchon_flat_v1(ARRAY[opened[w.n], w.runs]);
        END IF;
    END LOOP;
    FOR w IN
        SELECT %schema%.anarchon_ordered_v1(space, o.job, 0, '', now_ms) AS runs FROM (
            SELECT x.job, bool_and(x.manual LIKE 'backfill-%') AS is_backfill
            FROM %schema%.anarchon_run x
            WHERE x.namespace = space AND x.state <> 'closed' AND x.manual <> ''
                AND x.manual ~ '^(trigger|backfill)-'
                AND (x.state = 'waiting' OR x.manual LIKE 'backfill-%')
                AND x.job <> ALL (ARRAY(
                    SELECT (i.wish->>0) COLLATE "C" FROM jsonb_array_elements(items) AS i (wish)
                ))
            GROUP BY x.job ORDER BY 2, 1
        ) AS o
    LOOP
        IF w.runs IS NOT NULL THEN
            others := others + 1;
            EXIT WHEN others > 20;
            opened[last] := %schema%.anarchon_flat_v1(ARRAY[opened[last], w.runs]);
        END IF;
    END LOOP;
    RETURN opened;
END
$body$;

-- Whether a backfill has to wait for another one of its job: one that is running, or an older.
CREATE OR REPLACE FUNCTION %schema%.anarchon_must_wait_v1(
    space text, name text, slot bigint, manual_id text, now_ms bigint
) RETURNS boolean LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN EXISTS (
        SELECT FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.state <> 'closed' AND x.manual <> ''
            AND x.manual LIKE 'backfill-%' AND (x.slot_ms <> slot OR x.manual <> manual_id)
            AND CASE x.state WHEN 'running' THEN x.end_ms > now_ms
                ELSE (x.slot_ms, x.manual) < (slot, manual_id) END
    );
END
$body$;

-- Close the backfills of a job whose runners died, the job being locked, and return them; or
-- NULL, and nothing is closed, when one is alive, or is held by somebody's transaction. That
-- may still complete it, and then the next one must not have begun.
CREATE OR REPLACE FUNCTION %schema%.anarchon_bury_backfills_v1(
    space text, name text, token text, now_ms bigint
) RETURNS %schema%.anarchon_run[] LANGUAGE plpgsql AS $body$
DECLARE
    dead CONSTANT bigint := (
        SELECT count(*) FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.state <> 'closed' AND x.manual <> ''
            AND x.manual LIKE 'backfill-%' AND x.state = 'running'
    );
    runs %schema%.anarchon_run[] := '{}';
    run %schema%.anarchon_run;
BEGIN
    IF dead > 0 THEN
        FOR run IN
            SELECT x.* FROM %schema%.anarchon_run x
            WHERE x.namespace = space AND x.job = name AND x.state <> 'closed' AND x.manual <> ''
                AND x.manual LIKE 'backfill-%' AND x.state = 'running' AND x.end_ms <= now_ms
            ORDER BY x.slot_ms, x.manual
            FOR UPDATE SKIP LOCKED
        LOOP
            runs := runs || run;
        END LOOP;
        IF cardinality(runs) < dead THEN
            RETURN NULL;
        END IF;
    END IF;
    FOR n IN 1 .. cardinality(runs) LOOP
        run := runs[n];
        IF %schema%.anarchon_is_done_v1(space, name, run.slot_ms, run.manual, run.attempt) THEN
            runs[n] := %schema%.anarchon_done_v1(run, token, now_ms);
        ELSE
            runs[n] := %schema%.anarchon_close_v1(
                run, token, 'lost', 'runner died', now_ms, now_ms
            );
        END IF;
    END LOOP;
    RETURN runs;
END
$body$;

-- Remove the ordered runs of a job, which is locked, that nobody has taken for as long as history
-- is kept, and backfills that have been dead for so long.
CREATE OR REPLACE FUNCTION %schema%.anarchon_forget_orders_v1(
    space text, name text, now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT x.slot_ms, x.manual FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.state <> 'closed' AND x.manual <> ''
            AND now_ms - x.since_ms > 2592000000
            AND (x.manual LIKE 'backfill-%' OR x.manual LIKE 'trigger-%' AND x.state = 'waiting')
            AND (x.state = 'waiting' OR x.end_ms <= now_ms)
        FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.slot_ms = r.slot_ms
            AND x.manual = r.manual;
        DELETE FROM %schema%.anarchon_attempt a
        WHERE a.namespace = space AND a.job = name AND a.slot_ms = r.slot_ms
            AND a.manual = r.manual;
        DELETE FROM %schema%.anarchon_checkpoint c
        WHERE c.namespace = space AND c.job = name AND c.slot_ms = r.slot_ms
            AND c.manual = r.manual;
        DELETE FROM %schema%.anarchon_completion c
        WHERE c.namespace = space AND c.job = name AND c.slot_ms = r.slot_ms
            AND c.manual = r.manual;
    END LOOP;
END
$body$;

-- Ask the fleet for runs; those that are there already stay as they are. The data of an order is
-- kept as a checkpoint of its run, which whoever wins it is told.
CREATE OR REPLACE FUNCTION %schema%.anarchon_trigger_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    jobs CONSTANT text[] := ARRAY(
        SELECT DISTINCT t.item->>0 FROM jsonb_array_elements(items) AS t (item)
    );
    now_ms bigint;
    name text;
BEGIN
    PERFORM %schema%.anarchon_lock_v1(space, jobs, NULL);
    now_ms := %schema%.anarchon_now_v1();
    FOREACH name IN ARRAY jobs LOOP
        PERFORM %schema%.anarchon_forget_orders_v1(space, name, now_ms);
    END LOOP;
    WITH new AS (
        INSERT INTO %schema%.anarchon_run AS r
        SELECT space, t.job, t.slot_ms, t.manual, 0, 'waiting', '', now_ms, 0, 0, 0, 0, 0, 0, 0, 0,
            NULL, NULL, '', now_ms, t.slot_ms
        FROM (
            SELECT DISTINCT i.item->>0 AS job, (i.item->>1)::bigint AS slot_ms,
                i.item->>2 AS manual
            FROM jsonb_array_elements(items) AS i (item)
        ) AS t
        WHERE NOT EXISTS (
            SELECT FROM %schema%.anarchon_run x
            WHERE x.namespace = space AND x.job = t.job AND x.slot_ms = t.slot_ms
                AND x.manual = t.manual OFFSET 0
        )
        -- Where a whole statement sees what was there when it began, it may not see a copy.
        ON CONFLICT DO NOTHING
        RETURNING r.job, r.slot_ms, r.manual
    )
    INSERT INTO %schema%.anarchon_checkpoint (namespace, job, slot_ms, manual, value)
    SELECT space, n.job, n.slot_ms, n.manual, head->>0 FROM new AS n WHERE head->>0 IS NOT NULL;
    RETURN json_build_array(now_ms, '[]'::json);
END
$body$;
