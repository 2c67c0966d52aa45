-- What the operations have in common.
--
-- Each operation is one function, called by one statement: so it is atomic, also behind a
-- pooler that gives every transaction another connection. Each statement inside sees what
-- is committed by then, so what is read after a lock was taken is true until the end.
--
-- Order of locks, the same everywhere, so that nobody ever waits in a circle: the rows of
-- jobs by name, then the rows of runs by key. A takeover doesn't wait for a run's row, and a
-- claim that holds jobs already and wants more doesn't either: what is locked is skipped.
--
-- The lock of a job is FOR NO KEY UPDATE. Whoever has it alone starts, closes, inserts and
-- removes runs of that job. A renewal and a checkpoint change a running run without it.
--
-- lock_timeout is set by the statement that calls, for its transaction alone and before any
-- function is compiled, since that waits for tables already. It is the time that the caller
-- will wait, and counts for each lock anew: who waits for several in turn can go on a little
-- after its caller gave up, which harms nobody, as what is asked can be repeated.
-- (statement_timeout would not do: it counts from the start of a statement, and that has begun.)
--
-- The clock is read after the locks were taken: what is judged was written before, so time
-- never seems to go back, and a lease counts from the moment when it is given.
--
-- An operation has settings of its own (they are in _postgres_schema.py), and what
-- it calls inherits them. Names are looked up in pg_catalog alone, whatever search_path the
-- caller has. Plans are made once per connection and go by index, never by what statistics
-- say: the tables may be empty then. So what is looked up for each item stands in a subquery
-- that can't be joined in another way (LATERAL with LIMIT, OFFSET 0 or a lock), and rows that
-- are locked are written by their place (ctid), which can't change meanwhile.
--
-- Whoever changes a function gives it a new number: instances of the last one may run beside.

CREATE OR REPLACE FUNCTION %schema%.anarchon_now_v1() RETURNS bigint
LANGUAGE sql VOLATILE AS $body$
    SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint
$body$;

-- Lock the rows of these jobs in order of their names. New ones get their rows before that;
-- without a list of them they are looked for.
CREATE OR REPLACE FUNCTION %schema%.anarchon_lock_v1(
    space text, jobs text[], new_jobs text[]
) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    IF new_jobs IS NULL THEN
        new_jobs := ARRAY(
            SELECT asked.job FROM unnest(jobs) AS asked (job)
            WHERE NOT EXISTS (
                SELECT FROM %schema%.anarchon_job j
                WHERE j.namespace = space AND j.job = asked.job OFFSET 0
            )
        );
    END IF;
    IF new_jobs <> '{}' THEN
        INSERT INTO %schema%.anarchon_job (namespace, job)
        SELECT DISTINCT space, asked.job COLLATE "C" FROM unnest(new_jobs) AS asked (job)
        ORDER BY 2 ON CONFLICT DO NOTHING;
    END IF;
    PERFORM FROM %schema%.anarchon_job j
    WHERE j.namespace = space AND j.job = ANY (jobs) ORDER BY j.job FOR NO KEY UPDATE;
END
$body$;

-- Whether an open run may have another attempt.
CREATE OR REPLACE FUNCTION %schema%.anarchon_continuable_v1(
    run %schema%.anarchon_run, catch_up_ms bigint, now_ms bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $body$
    SELECT run.cancel = 0
        AND now_ms - run.end_ms <= greatest(catch_up_ms, 3 * run.lease_ms)
        AND (run.state = 'waiting' OR run.deaths + 1 < run.budget)
$body$;

-- An open run in words: state, attempt, beat, left, lease, heartbeat, owner.
CREATE OR REPLACE FUNCTION %schema%.anarchon_open_v1(
    kind text, run %schema%.anarchon_run, now_ms bigint
) RETURNS json LANGUAGE sql STABLE AS $body$
    SELECT json_build_array(
        kind, run.state, run.attempt, run.beat,
        CASE run.state WHEN 'running' THEN run.end_ms - now_ms ELSE 0 END,
        run.lease_ms, run.heartbeat_ms, run.owner
    )
$body$;

-- The same with its key in front, for runs that nobody asked for by name.
CREATE OR REPLACE FUNCTION %schema%.anarchon_named_v1(run %schema%.anarchon_run, now_ms bigint)
RETURNS json LANGUAGE sql STABLE AS $body$
    SELECT json_build_array(
        run.job, run.slot_ms, run.manual, run.state, run.attempt, run.beat,
        CASE run.state WHEN 'running' THEN run.end_ms - now_ms ELSE 0 END,
        run.lease_ms, run.heartbeat_ms, run.owner
    )
$body$;

-- Other open runs in words, the ten oldest, without those that were closed just now.
CREATE OR REPLACE FUNCTION %schema%.anarchon_others_v1(
    runs %schema%.anarchon_run[], gone %schema%.anarchon_run[], now_ms bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN (
        SELECT json_agg(%schema%.anarchon_named_v1(o.run, now_ms) ORDER BY o.n) FROM (
            SELECT x AS run, row_number() OVER (ORDER BY x.slot_ms) AS n
            FROM unnest(runs) AS x
                WHERE gone IS NULL
                OR x.slot_ms <> ALL (ARRAY(SELECT g.slot_ms FROM unnest(gone) AS g))
        ) AS o WHERE o.n <= 10
    );
END
$body$;

-- Lists of lists in one list.
CREATE OR REPLACE FUNCTION %schema%.anarchon_flat_v1(lists json[]) RETURNS json
LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
    RETURN coalesce((
        SELECT json_agg(e.value ORDER BY l.n, e.n)
        FROM unnest(lists) WITH ORDINALITY AS l (list, n)
        CROSS JOIN LATERAL json_array_elements(l.list) WITH ORDINALITY AS e (value, n)
    ), '[]');
END
$body$;

-- A line of history in words.
CREATE OR REPLACE FUNCTION %schema%.anarchon_line_v1(line %schema%.anarchon_attempt)
RETURNS json LANGUAGE sql STABLE AS $body$
    SELECT json_build_array(
        line.job, line.slot_ms, line.manual, line.attempt, line.status, line.detail,
        line.reason, line.instance, line.started_ms, line.finished_ms, line.duration_ms,
        line.error, line.traceback
    )
$body$;

-- The line of a closed run, also when it is gone from history.
CREATE OR REPLACE FUNCTION %schema%.anarchon_record_v1(run %schema%.anarchon_run) RETURNS json
LANGUAGE plpgsql STABLE AS $body$
DECLARE
    line %schema%.anarchon_attempt;
BEGIN
    SELECT a.* INTO line FROM %schema%.anarchon_attempt a
    WHERE a.namespace = run.namespace AND a.job = run.job AND a.slot_ms = run.slot_ms
        AND a.manual = run.manual AND a.attempt = run.attempt;
    IF NOT found THEN
        line := ROW(
            run.namespace, run.job, run.slot_ms, run.manual, run.attempt,
            coalesce(run.status, 'lost'), run.detail, 'scheduled',
            NULL, NULL, NULL, NULL, NULL, NULL
        );
    END IF;
    RETURN %schema%.anarchon_line_v1(line);
END
$body$;

-- The answer about a closed run; who decided it is told its line as well.
CREATE OR REPLACE FUNCTION %schema%.anarchon_closed_v1(run %schema%.anarchon_run, token text)
RETURNS json LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN json_build_array(
        'closed', coalesce(run.status, 'lost'), run.detail, run.decided_by,
        CASE WHEN run.decided_by = token THEN %schema%.anarchon_record_v1(run) END
    );
END
$body$;

-- Change the line of an attempt; the status and the detail always, the rest where it is said.
CREATE OR REPLACE FUNCTION %schema%.anarchon_end_v1(
    run %schema%.anarchon_run, new_status text, new_detail text, ended_ms bigint,
    new_error text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE %schema%.anarchon_attempt a
    SET status = new_status, detail = new_detail, finished_ms = coalesce(ended_ms, finished_ms),
        error = coalesce(new_error, error)
    WHERE a.namespace = run.namespace AND a.job = run.job AND a.slot_ms = run.slot_ms
        AND a.manual = run.manual AND a.attempt = run.attempt;
END
$body$;

-- Whether a transaction of the handler has completed an attempt, whose row is locked.
--
-- Where a whole statement sees what was there when it began, the answer might be there already
-- and not be seen. To insert it once more fails then, and who asks repeats the statement.
CREATE OR REPLACE FUNCTION %schema%.anarchon_is_done_v1(
    space text, name text, slot bigint, manual_id text, nth bigint
) RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (
        SELECT FROM %schema%.anarchon_completion c
        WHERE c.namespace = space AND c.job = name AND c.slot_ms = slot AND c.manual = manual_id
            AND c.attempt = nth
    ) THEN
        RETURN true;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO %schema%.anarchon_completion (namespace, job, slot_ms, manual, attempt, done_ms)
        VALUES (space, name, slot, manual_id, nth, 0) ON CONFLICT DO NOTHING;
        DELETE FROM %schema%.anarchon_completion c
        WHERE c.namespace = space AND c.job = name AND c.slot_ms = slot AND c.manual = manual_id
            AND c.attempt = nth;
    END IF;
    RETURN false;
END
$body$;

-- Close an open run in somebody's name, with its line and without its checkpoint.
CREATE OR REPLACE FUNCTION %schema%.anarchon_close_v1(
    run %schema%.anarchon_run, token text, new_status text, new_detail text, ended_ms bigint,
    now_ms bigint, new_error text DEFAULT NULL
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE %schema%.anarchon_run r
    SET state = 'closed', status = new_status, detail = new_detail, decided_by = token,
        since_ms = now_ms, deaths = run.deaths
    WHERE r.namespace = run.namespace AND r.job = run.job AND r.slot_ms = run.slot_ms
        AND r.manual = run.manual AND r.attempt = run.attempt
    RETURNING r.* INTO run;
    PERFORM %schema%.anarchon_end_v1(run, new_status, new_detail, ended_ms, new_error);
    DELETE FROM %schema%.anarchon_checkpoint c
    WHERE c.namespace = run.namespace AND c.job = run.job AND c.slot_ms = run.slot_ms
        AND c.manual = run.manual;
    DELETE FROM %schema%.anarchon_completion c
    WHERE c.namespace = run.namespace AND c.job = run.job AND c.slot_ms = run.slot_ms
        AND c.manual = run.manual;
    RETURN run;
END
$body$;

-- Close a run that a transaction of the handler has completed.
CREATE OR REPLACE FUNCTION %schema%.anarchon_done_v1(
    run %schema%.anarchon_run, token text, now_ms bigint
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql AS $body$
DECLARE
    ended_ms CONSTANT bigint := (
        SELECT c.done_ms FROM %schema%.anarchon_completion c
        WHERE c.namespace = run.namespace AND c.job = run.job AND c.slot_ms = run.slot_ms
            AND c.manual = run.manual AND c.attempt = run.attempt
    );
BEGIN
    run := %schema%.anarchon_close_v1(run, token, 'success', NULL, ended_ms, now_ms);
    UPDATE %schema%.anarchon_attempt a SET duration_ms = ended_ms - a.started_ms
    WHERE a.namespace = run.namespace AND a.job = run.job AND a.slot_ms = run.slot_ms
        AND a.manual = run.manual AND a.attempt = run.attempt;
    RETURN run;
END
$body$;

-- Close a run that waits, which nobody will go on with: unless it was completed all the same.
CREATE OR REPLACE FUNCTION %schema%.anarchon_give_up_v1(
    run %schema%.anarchon_run, token text, status text, detail text, now_ms bigint
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql AS $body$
BEGIN
    IF %schema%.anarchon_is_done_v1(
        run.namespace, run.job, run.slot_ms, run.manual, run.attempt
    ) THEN
        RETURN %schema%.anarchon_done_v1(run, token, now_ms);
    END IF;
    RETURN %schema%.anarchon_close_v1(run, token, status, detail, NULL, now_ms);
END
$body$;

-- What history says of a run whose budget of deaths is used up.
CREATE OR REPLACE FUNCTION %schema%.anarchon_died_v1(deaths bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $body$
    SELECT 'runner died ' || deaths || CASE deaths WHEN 1 THEN ' time' ELSE ' times' END
$body$;

-- The first line of an attempt.
CREATE OR REPLACE FUNCTION %schema%.anarchon_opened_v1(
    run %schema%.anarchon_run, reason text, instance text
) RETURNS %schema%.anarchon_attempt LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN ROW(
        run.namespace, run.job, run.slot_ms, run.manual, run.attempt,
        coalesce(run.status, 'running'), run.detail, reason, instance,
        CASE run.state WHEN 'running' THEN run.since_ms END,
        CASE run.state WHEN 'closed' THEN run.since_ms END, NULL, NULL, NULL
    )::%schema%.anarchon_attempt;
END
$body$;

-- A slot that nobody will run, closed from the start.
CREATE OR REPLACE FUNCTION %schema%.anarchon_never_v1(
    space text, token text, name text, slot_ms bigint, status text, detail text, now_ms bigint
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN ROW(
        space, name, slot_ms, '', 1, 'closed', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, status, detail,
        token, now_ms, slot_ms
    )::%schema%.anarchon_run;
END
$body$;

-- Let the next attempt of a run begin as it would in a new one; deaths and place stay.
CREATE OR REPLACE FUNCTION %schema%.anarchon_follow_v1(
    old %schema%.anarchon_run, new %schema%.anarchon_run
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE %schema%.anarchon_run r
    SET state = new.state, attempt = new.attempt, owner = new.owner, end_ms = new.end_ms,
        lease_ms = new.lease_ms, heartbeat_ms = new.heartbeat_ms, beat = new.beat,
        fence = new.fence, deaths = r.deaths + CASE r.state WHEN 'running' THEN 1 ELSE 0 END,
        budget = new.budget, catch_up_ms = new.catch_up_ms, cancel = new.cancel, status = NULL,
        detail = NULL, decided_by = new.decided_by, since_ms = new.since_ms
    WHERE r.namespace = old.namespace AND r.job = old.job AND r.slot_ms = old.slot_ms
        AND r.manual = old.manual
    RETURNING r.* INTO new;
    RETURN new;
END
$body$;

-- Insert runs with their first lines, and count these; the jobs are locked.
CREATE OR REPLACE FUNCTION %schema%.anarchon_insert_v1(
    runs %schema%.anarchon_run[], lines %schema%.anarchon_attempt[]
) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO %schema%.anarchon_run SELECT r.* FROM unnest(runs) AS r;
    INSERT INTO %schema%.anarchon_attempt SELECT a.* FROM unnest(lines) AS a;
    PERFORM %schema%.anarchon_count_v1(runs);
END
$body$;

-- Count a new line of history for each of these runs, and keep the fence of their jobs.
CREATE OR REPLACE FUNCTION %schema%.anarchon_count_v1(runs %schema%.anarchon_run[])
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE %schema%.anarchon_job j
    SET fence = greatest(j.fence, new.fence), records = j.records + new.records,
        skips = j.skips + new.skips
    FROM (
        SELECT (
                SELECT x.ctid FROM %schema%.anarchon_job x
                WHERE x.namespace = r.namespace AND x.job = r.job
            ) AS place,
            max(r.fence) FILTER (WHERE r.fence < 9007199254740992) AS fence,
            count(*) FILTER (WHERE r.status IS DISTINCT FROM 'skipped') AS records,
            count(*) FILTER (WHERE r.status = 'skipped') AS skips
        FROM unnest(runs) AS r GROUP BY r.namespace, r.job
    ) AS new
    WHERE j.ctid = new.place;
END
$body$;

-- Remove what history need not keep of a job: whole closed runs, oldest first, and at most a
-- hundred at once. Skips and all else are counted apart. The floor rises with every slot that
-- is removed, so that it can't be claimed again. Manual runs leave no mark there; one whose
-- runner is long gone may leave as well, and one that waits never does. A row that a user's
-- transaction holds stays for now.
CREATE OR REPLACE FUNCTION %schema%.anarchon_trim_v1(
    space text, name text, of_skips boolean, now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    kept CONSTANT bigint := CASE WHEN of_skips THEN 20 ELSE 100 END;
    left_over bigint;
    lines bigint;
    r record;
    slots bigint[] := '{}';
    manuals text[] := '{}';
    has_open boolean := false;
    top bigint;
BEGIN
    SELECT CASE WHEN of_skips THEN j.skips ELSE j.records END INTO left_over
    FROM %schema%.anarchon_job j WHERE j.namespace = space AND j.job = name;
    IF left_over < 10 THEN
        RETURN;
    END IF;
    FOR r IN
        SELECT x.slot_ms, x.manual, x.since_ms, x.state
        FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.slot_ms <= now_ms
            AND (x.state = 'closed' OR (
                x.manual <> '' AND x.state = 'running'
                AND now_ms - x.end_ms > greatest(3600000, 3 * x.lease_ms)
            ))
            AND (x.status IS NOT DISTINCT FROM 'skipped') = of_skips
        ORDER BY x.slot_ms, x.manual LIMIT 101
    LOOP
        EXIT WHEN cardinality(slots) = 100
            OR NOT (left_over > kept OR now_ms - r.since_ms > 2592000000);
        SELECT count(*) INTO lines FROM %schema%.anarchon_attempt a
        WHERE a.namespace = space AND a.job = name AND a.slot_ms = r.slot_ms
            AND a.manual = r.manual;
        EXIT WHEN left_over - lines < 10;
        PERFORM FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.slot_ms = r.slot_ms
            AND x.manual = r.manual
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT found;
        slots := slots || r.slot_ms;
        manuals := manuals || r.manual;
        left_over := left_over - lines;
        has_open := has_open OR r.state <> 'closed';
        IF r.manual = '' THEN
            top := r.slot_ms;
        END IF;
    END LOOP;
    IF slots = '{}' THEN
        RETURN;
    END IF;
    FOR n IN 1 .. cardinality(slots) LOOP
        DELETE FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = name AND x.slot_ms = slots[n]
            AND x.manual = manuals[n];
        DELETE FROM %schema%.anarchon_attempt a
        WHERE a.namespace = space AND a.job = name AND a.slot_ms = slots[n]
            AND a.manual = manuals[n];
        IF has_open THEN  -- what is closed has no checkpoint
            DELETE FROM %schema%.anarchon_checkpoint c
            WHERE c.namespace = space AND c.job = name AND c.slot_ms = slots[n]
                AND c.manual = manuals[n];
        END IF;
    END LOOP;
    -- What was completed by a transaction that ended only after its run was closed.
    DELETE FROM %schema%.anarchon_completion c
    WHERE c.namespace = space AND c.job = name AND c.slot_ms = ANY (slots)
        AND NOT EXISTS (
            SELECT FROM %schema%.anarchon_run x
            WHERE x.namespace = space AND x.job = name AND x.slot_ms = c.slot_ms
                AND x.manual = c.manual
        );
    UPDATE %schema%.anarchon_job j
    SET floor_ms = greatest(j.floor_ms, top),
        skips = CASE WHEN of_skips THEN left_over ELSE j.skips END,
        records = CASE WHEN of_skips THEN j.records ELSE left_over END
    WHERE j.namespace = space AND j.job = name;
END
$body$;

-- Trim what may have grown too long: records of these jobs, and skips of those.
CREATE OR REPLACE FUNCTION %schema%.anarchon_trim_all_v1(
    space text, worn text[], worn_skips text[], now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT DISTINCT x.job FROM unnest(worn) AS x (job) LOOP
        PERFORM %schema%.anarchon_trim_v1(space, name, false, now_ms);
    END LOOP;
    FOR name IN SELECT DISTINCT x.job FROM unnest(worn_skips) AS x (job) LOOP
        PERFORM %schema%.anarchon_trim_v1(space, name, true, now_ms);
    END LOOP;
END
$body$;
