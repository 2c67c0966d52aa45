-- Everything else: what is done with leases, jobs and history.

-- Extend leases. The rows are locked in order of their keys, as everywhere.
CREATE OR REPLACE FUNCTION %schema%.anarchon_renew_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    token CONSTANT text := head->>0;
    new_lease_ms CONSTANT bigint := head->>1;
    now_ms bigint;
    places tid[];
    words text[];
BEGIN
    SELECT array_agg(l.place), array_agg(
        CASE WHEN l.place IS NULL AND EXISTS (
            SELECT FROM %schema%.anarchon_run r
            WHERE r.namespace = space AND r.job = t.job AND r.slot_ms = t.slot_ms
                AND r.manual = t.manual AND r.attempt = t.attempt AND r.owner = token
                AND r.status = 'success'
        ) THEN 'done' WHEN l.place IS NULL THEN 'lost'
        WHEN l.cancel <> 0 THEN 'cancelled' ELSE 'ok' END
        ORDER BY t.n
    ) INTO places, words
    FROM (
        SELECT t.n, t.item->>0 AS job, (t.item->>1)::bigint AS slot_ms, t.item->>2 AS manual,
            (t.item->>3)::bigint AS attempt
        FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
        ORDER BY (t.item->>0) COLLATE "C", 3, (t.item->>2) COLLATE "C"
    ) AS t
    LEFT JOIN LATERAL (
        SELECT r.ctid AS place, r.cancel FROM %schema%.anarchon_run r
        WHERE r.namespace = space AND r.job = t.job AND r.slot_ms = t.slot_ms
            AND r.manual = t.manual AND r.attempt = t.attempt AND r.state = 'running'
            AND r.owner = token
        FOR NO KEY UPDATE
    ) AS l ON true;
    now_ms := %schema%.anarchon_now_v1();
    UPDATE %schema%.anarchon_run r
    SET end_ms = now_ms + new_lease_ms, lease_ms = new_lease_ms, beat = r.beat + 1
    WHERE r.ctid = ANY (places);
    RETURN json_build_array(
        now_ms,
        coalesce((SELECT json_agg(json_build_array(w)) FROM unnest(words) AS w), '[]')
    );
END
$body$;

-- What is wrong among the open runs of these jobs; or, with `everything`, all of them. What is
-- ordered and waits comes behind the other runs of its job.
CREATE OR REPLACE FUNCTION %schema%.anarchon_see_v1(
    everything boolean, space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql STABLE AS $body$
DECLARE
    now_ms CONSTANT bigint := %schema%.anarchon_now_v1();
    any_order CONSTANT boolean := %schema%.anarchon_any_order_v1(space);
BEGIN
    RETURN (
        SELECT json_build_array(
            now_ms, '[]'::json,
            coalesce(json_agg(
                %schema%.anarchon_named_v1(x.run, now_ms)
                ORDER BY x.n, x.is_order, x.slot_ms, x.manual
            ) FILTER (WHERE everything OR x.is_wrong), '[]'),
            '[]'::json,
            count(*) FILTER (WHERE NOT x.is_mine),
            min(x.left_ms) FILTER (WHERE NOT x.is_mine AND x.left_ms > 0)
        ) FROM (
            SELECT t.n, r.run, false AS is_order, r.slot_ms, '' AS manual, r.left_ms,
                r.state = 'running' AND r.owner = head->>0 AS is_mine,
                r.state = 'waiting' OR r.left_ms <= 0 OR r.left_ms > r.lease_ms
                    OR r.lease_ms - r.left_ms >= 1.5 * r.heartbeat_ms AS is_wrong
            FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
            CROSS JOIN LATERAL (
                SELECT o AS run, o.slot_ms, o.state, o.owner, o.lease_ms, o.heartbeat_ms,
                    CASE o.state WHEN 'running' THEN o.end_ms - now_ms ELSE 0 END AS left_ms
                FROM %schema%.anarchon_run o
                WHERE o.namespace = space AND o.job = t.item->>0 AND o.state <> 'closed'
                    AND o.manual = '' OFFSET 0
            ) AS r
            UNION ALL
            SELECT t.n, o, true, o.slot_ms, o.manual, 0, false, true
            FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
            CROSS JOIN LATERAL %schema%.anarchon_takeable_v1(
                space, t.item->>0, 0, '', now_ms
            ) AS o
            WHERE any_order
        ) AS x
    );
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_look_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql STABLE %settings% AS $body$
BEGIN
    RETURN %schema%.anarchon_see_v1(false, space, head, items);
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_unfinished_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql STABLE %settings% AS $body$
BEGIN
    RETURN %schema%.anarchon_see_v1(true, space, head, items);
END
$body$;

-- Close slots as missed, once the job's next slot is due. An item: job, slot, next, detail.
CREATE OR REPLACE FUNCTION %schema%.anarchon_skip_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    token CONSTANT text := head->>0;
    now_ms bigint;
    t record;
    run %schema%.anarchon_run;
    line %schema%.anarchon_attempt;
    floor_ms bigint;
    answers json[] := '{}';
    worn text[] := '{}';
    any_order boolean;
    opened json;
BEGIN
    PERFORM %schema%.anarchon_lock_v1(
        space, ARRAY(SELECT DISTINCT e.item->>0 FROM jsonb_array_elements(items) AS e (item)),
        NULL
    );
    now_ms := %schema%.anarchon_now_v1();
    FOR t IN
        SELECT e.n, e.item->>0 AS job, (e.item->>1)::bigint AS slot_ms,
            (e.item->>2)::bigint AS next_ms, e.item->>3 AS detail
        FROM jsonb_array_elements(items) WITH ORDINALITY AS e (item, n) ORDER BY e.n
    LOOP
        SELECT r.* INTO run FROM %schema%.anarchon_run r
        WHERE r.namespace = space AND r.job = t.job AND r.slot_ms = t.slot_ms AND r.manual = '';
        IF found THEN
            answers[t.n] := CASE run.state
                WHEN 'closed' THEN %schema%.anarchon_closed_v1(run, token)
                WHEN 'waiting' THEN json_build_array('waiting', run.attempt)
                ELSE %schema%.anarchon_open_v1('held', run, now_ms) END;
            CONTINUE;
        END IF;
        SELECT j.floor_ms INTO floor_ms FROM %schema%.anarchon_job j
        WHERE j.namespace = space AND j.job = t.job;
        IF t.slot_ms <= floor_ms THEN
            answers[t.n] := '["closed", "skipped", "trimmed", "", null]';
        ELSIF t.next_ms - now_ms > (head->>2)::bigint THEN
            answers[t.n] := json_build_array('early', t.next_ms - now_ms);
        ELSE
            run := %schema%.anarchon_never_v1(
                space, token, t.job, t.slot_ms, 'missed', t.detail, now_ms
            );
            line := %schema%.anarchon_opened_v1(run, 'scheduled', head->>1);
            PERFORM %schema%.anarchon_insert_v1(ARRAY[run], ARRAY[line]);
            answers[t.n] := %schema%.anarchon_closed_v1(run, token);
            worn := worn || t.job;
        END IF;
    END LOOP;
    PERFORM %schema%.anarchon_trim_all_v1(space, worn, '{}', now_ms);
    any_order := %schema%.anarchon_any_order_v1(space);
    SELECT %schema%.anarchon_flat_v1(array_agg(l.list ORDER BY o.n, l.nth)) INTO opened FROM (
        SELECT e.n, e.job, (
            SELECT array_agg(r ORDER BY r.slot_ms) FROM %schema%.anarchon_run r
            WHERE r.namespace = space AND r.job = e.job AND r.state <> 'closed'
                AND r.manual = '' AND NOT EXISTS (
                    SELECT FROM jsonb_array_elements(items) AS a (item)
                    WHERE a.item->>0 = r.job AND (a.item->>1)::bigint = r.slot_ms
                )
        ) AS runs
        FROM (
            SELECT a.item->>0 AS job, min(a.n) AS n
            FROM jsonb_array_elements(items) WITH ORDINALITY AS a (item, n) GROUP BY 1
        ) AS e
    ) AS o
    CROSS JOIN LATERAL (VALUES
        (1, %schema%.anarchon_others_v1(o.runs, '{}', now_ms)),
        (2, CASE WHEN any_order
            THEN %schema%.anarchon_ordered_v1(space, o.job, 0, '', now_ms) END)
    ) AS l (nth, list)
    WHERE l.list IS NOT NULL;
    RETURN json_build_array(now_ms, array_to_json(answers), opened);
END
$body$;

-- Keep a checkpoint, if the attempt is the asker's.
CREATE OR REPLACE FUNCTION %schema%.anarchon_save_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    item CONSTANT jsonb := items->0;
    is_held boolean;
BEGIN
    PERFORM FROM %schema%.anarchon_run r
    WHERE r.namespace = space AND r.job = item->>0 AND r.slot_ms = (item->>1)::bigint
        AND r.manual = item->>2 AND r.attempt = (item->>3)::bigint
        AND r.state = 'running' AND r.owner = head->>0
    FOR NO KEY UPDATE;
    is_held := found;
    IF is_held THEN
        INSERT INTO %schema%.anarchon_checkpoint AS c (namespace, job, slot_ms, manual, value)
        VALUES (space, item->>0, (item->>1)::bigint, item->>2, head->>1)
        ON CONFLICT (namespace, job, slot_ms, manual) DO UPDATE SET value = excluded.value;
    END IF;
    RETURN json_build_array(
        %schema%.anarchon_now_v1(),
        json_build_array(json_build_array(CASE WHEN is_held THEN 'yes' ELSE 'no' END))
    );
END
$body$;

-- Close a run that waits, flag one that runs.
CREATE OR REPLACE FUNCTION %schema%.anarchon_cancel_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    item CONSTANT jsonb := items->0;
    name CONSTANT text := item->>0;
    now_ms bigint;
    run %schema%.anarchon_run;
    is_open boolean;
BEGIN
    PERFORM FROM %schema%.anarchon_job j WHERE j.namespace = space AND j.job = name;
    IF found THEN  -- so that asking records nothing
        PERFORM %schema%.anarchon_lock_v1(space, ARRAY[name], NULL);
    END IF;
    SELECT r.* INTO run FROM %schema%.anarchon_run r
    WHERE r.namespace = space AND r.job = name AND r.slot_ms = (item->>1)::bigint
        AND r.manual = item->>2 AND r.state <> 'closed'
    FOR NO KEY UPDATE;
    is_open := found;
    now_ms := %schema%.anarchon_now_v1();
    IF run.state = 'waiting' THEN
        PERFORM %schema%.anarchon_give_up_v1(run, '', 'interrupted', 'cancelled', now_ms);
        PERFORM %schema%.anarchon_trim_v1(space, name, false, now_ms);
    ELSIF is_open THEN
        UPDATE %schema%.anarchon_run r SET cancel = 1
        WHERE r.namespace = space AND r.job = name AND r.slot_ms = run.slot_ms
            AND r.manual = run.manual;
    END IF;
    RETURN json_build_array(
        now_ms, json_build_array(json_build_array(CASE WHEN is_open THEN 'yes' ELSE 'no' END))
    );
END
$body$;

-- Pause a job or, without one, all; for a while, or without end. 0 ends it.
CREATE OR REPLACE FUNCTION %schema%.anarchon_pause_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    forever CONSTANT bigint := 9007199254740992;
    name CONSTANT text := head->>0;
    length_ms CONSTANT numeric := head->>1;
    now_ms bigint;
    until_ms bigint;
BEGIN
    IF name IS NOT NULL THEN
        PERFORM %schema%.anarchon_lock_v1(space, ARRAY[name], NULL);
    END IF;
    now_ms := %schema%.anarchon_now_v1();
    until_ms := CASE WHEN length_ms = 0 THEN 0
        ELSE least(forever, now_ms + coalesce(length_ms, forever)) END;
    IF name IS NOT NULL THEN
        UPDATE %schema%.anarchon_job j SET paused_until_ms = until_ms
        WHERE j.namespace = space AND j.job = name;
    ELSE
        INSERT INTO %schema%.anarchon_namespace AS s (namespace, paused_until_ms)
        VALUES (space, until_ms)
        ON CONFLICT (namespace) DO UPDATE SET paused_until_ms = excluded.paused_until_ms;
    END IF;
    RETURN json_build_array(now_ms, '[]'::json);
END
$body$;

-- Lines of history, newest first, as they read now: a running one that a transaction of the
-- handler has completed reads success, and one whose runner nobody will follow reads lost.
-- Planned anew at each call, since a job that is named makes all the difference. The head:
-- limit, job, status, and the place before: slot, job, manual, attempt.
CREATE OR REPLACE FUNCTION %schema%.anarchon_history_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql STABLE %settings%
SET plan_cache_mode = force_custom_plan AS $body$
DECLARE
    now_ms CONSTANT bigint := %schema%.anarchon_now_v1();
    name CONSTANT text := head->>1;
    wanted CONSTANT text := head->>2;
BEGIN
    RETURN json_build_array(now_ms, coalesce((
        SELECT json_agg(%schema%.anarchon_line_v1(x.line) ORDER BY x.n) FROM (
            SELECT ROW(
                a.namespace, a.job, a.slot_ms, a.manual, a.attempt, l.status,
                CASE l.status WHEN a.status THEN a.detail WHEN 'lost' THEN 'runner died' END,
                a.reason, a.instance, a.started_ms, coalesce(a.finished_ms, c.done_ms),
                coalesce(a.duration_ms, c.done_ms - a.started_ms), a.error, a.traceback
            )::%schema%.anarchon_attempt AS line,
            row_number() OVER (
                ORDER BY a.slot_ms DESC, a.job DESC, a.manual DESC, a.attempt DESC
            ) AS n
            FROM %schema%.anarchon_attempt a
            LEFT JOIN LATERAL (
                SELECT x.done_ms FROM %schema%.anarchon_completion x
                WHERE a.status = 'running' AND x.namespace = a.namespace AND x.job = a.job
                    AND x.slot_ms = a.slot_ms AND x.manual = a.manual AND x.attempt = a.attempt
                LIMIT 1
            ) AS c ON true
            CROSS JOIN LATERAL (
                SELECT CASE WHEN a.status <> 'running' THEN a.status
                    WHEN c.done_ms IS NOT NULL THEN 'success'
                    WHEN NOT EXISTS (
                        SELECT FROM %schema%.anarchon_run r
                        WHERE r.namespace = a.namespace AND r.job = a.job
                            AND r.slot_ms = a.slot_ms AND r.manual = a.manual
                            AND r.attempt = a.attempt
                            AND r.state = 'running' AND (r.end_ms > now_ms
                                OR %schema%.anarchon_continuable_v1(r, r.catch_up_ms, now_ms))
                        OFFSET 0
                    ) THEN 'lost' ELSE 'running' END AS status
            ) AS l
            WHERE a.namespace = space AND (name IS NULL OR a.job = name)
                AND (head->>3 IS NULL OR (a.slot_ms, a.job, a.manual, a.attempt)
                    < ((head->>3)::bigint, head->>4, head->>5, (head->>6)::bigint))
                AND (wanted IS NULL OR wanted = l.status)
            ORDER BY a.slot_ms DESC, a.job DESC, a.manual DESC, a.attempt DESC
            LIMIT (head->>0)::bigint
        ) AS x
    ), '[]'));
END
$body$;
