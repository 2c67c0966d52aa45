-- How attempts end. An item is: job, slot, manual, attempt, status, reason, started, duration,
-- detail, error, traceback, fence, counted, completes.
--
-- An attempt that completes was to record its success in a transaction of the handler's. If that
-- was committed it is one, whatever came afterwards; if it ended without, it is none; and while
-- it is open nothing is decided. It is open as long as the run's row can't be had FOR UPDATE.

-- Insert a run that isn't recorded: a manual one, or one that the store lost.
CREATE OR REPLACE FUNCTION %schema%.anarchon_put_v1(
    space text, head jsonb, item jsonb, new_state text, lease_ms bigint, now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    slot_ms CONSTANT bigint := item->>1;
    started_ms CONSTANT bigint := nullif((item->>6)::bigint, 0);
    is_closed CONSTANT boolean := new_state = 'closed';
    run %schema%.anarchon_run;
    line %schema%.anarchon_attempt;
BEGIN
    run := ROW(
        space, item->>0, slot_ms, item->>2, (item->>3)::bigint, new_state, head->>0,
        now_ms + lease_ms, lease_ms, lease_ms / 3, 0, (item->>11)::bigint, 0, 0, 0, 0,
        CASE WHEN is_closed THEN item->>4 END, CASE WHEN is_closed THEN item->>8 END,
        CASE WHEN is_closed THEN head->>0 ELSE '' END, now_ms, slot_ms
    );
    line := %schema%.anarchon_opened_v1(run, item->>5, head->>1);
    line.detail := item->>8;
    line.started_ms := started_ms;
    IF is_closed THEN
        line.finished_ms := coalesce(started_ms + (item->>7)::bigint, now_ms);
        line.duration_ms := CASE WHEN started_ms IS NOT NULL THEN (item->>7)::bigint END;
        line.error := item->>9;
        line.traceback := item->>10;
    ELSE
        line.started_ms := coalesce(started_ms, now_ms);
    END IF;
    PERFORM %schema%.anarchon_insert_v1(ARRAY[run], ARRAY[line]);
END
$body$;

-- A result after the commit of the transaction that recorded it as a success.
CREATE OR REPLACE FUNCTION %schema%.anarchon_committed_v1(item jsonb)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
    IF item->>4 <> 'success' THEN
        item := jsonb_set(item, '{8}', 'null');
    END IF;
    RETURN jsonb_set(jsonb_set(jsonb_set(item, '{4}', '"success"'), '{9}', 'null'), '{10}', 'null');
END
$body$;

-- A success that was to be recorded by a transaction, and was not.
CREATE OR REPLACE FUNCTION %schema%.anarchon_uncommitted_v1(item jsonb)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $body$
BEGIN
    RETURN jsonb_set(jsonb_set(item, '{4}', '"failed"'), '{9}', to_jsonb(
        'the handler returned, but the transaction given to ctx.complete() was not committed'::text
    ));
END
$body$;

-- Forget that an attempt was completed, once its run is closed.
CREATE OR REPLACE FUNCTION %schema%.anarchon_forget_v1(space text, item jsonb)
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    DELETE FROM %schema%.anarchon_completion c
    WHERE c.namespace = space AND c.job = item->>0 AND c.slot_ms = (item->>1)::bigint
        AND c.manual = item->>2;
END
$body$;

-- Finish, release or record manual runs; `operation` says which.
--
-- A run that is named again in the same call is judged when the first time was written.
CREATE OR REPLACE FUNCTION %schema%.anarchon_settle_v1(
    operation text, space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql AS $body$
DECLARE
    token CONSTANT text := head->>0;
    now_ms bigint;
    v record;
    item jsonb;
    is_done boolean;
    run %schema%.anarchon_run;
    todo bigint[];
    again bigint[];
    answers json[] := '{}';
    new_state text;
    status text;
    detail text;
    error text;
    worn text[] := '{}';
    worn_skips text[] := '{}';
    ended bigint[];  -- the numbers of those that end, with the places of their rows, and how
    run_places tid[];
    line_places tid[];
    states text[];
    died bigint[];
    statuses text[];
    details text[];
    errors text[];
BEGIN
    PERFORM %schema%.anarchon_lock_v1(
        space, ARRAY(SELECT DISTINCT t.item->>0 FROM jsonb_array_elements(items) AS t (item)),
        NULL
    );
    PERFORM FROM (
        SELECT t.item->>0 AS job, (t.item->>1)::bigint AS slot_ms, t.item->>2 AS manual
        FROM jsonb_array_elements(items) AS t (item)
        ORDER BY (t.item->>0) COLLATE "C", 2, (t.item->>2) COLLATE "C"
    ) AS t
    CROSS JOIN LATERAL (
        SELECT FROM %schema%.anarchon_run r
        WHERE r.namespace = space AND r.job = t.job AND r.slot_ms = t.slot_ms
            AND r.manual = t.manual
        FOR NO KEY UPDATE
    ) AS r;
    now_ms := %schema%.anarchon_now_v1();
    LOOP
        again := '{}'; ended := '{}'; run_places := '{}'; line_places := '{}';
        states := '{}'; died := '{}'; statuses := '{}'; details := '{}'; errors := '{}';
        FOR v IN
            SELECT t.n, t.item, r.run, r.place IS NOT NULL AS is_known, j.floor_ms,
                r.place AS run_place, a.place AS line_place, c.has_saved,
                (t.item->>3)::bigint AS attempt,
                row_number() OVER (PARTITION BY t.item->>0, t.item->>1, t.item->>2 ORDER BY t.n)
                    AS turn
            FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
            LEFT JOIN LATERAL (
                SELECT x AS run, x.ctid AS place FROM %schema%.anarchon_run x
                WHERE x.namespace = space AND x.job = t.item->>0
                    AND x.slot_ms = (t.item->>1)::bigint AND x.manual = t.item->>2 LIMIT 1
            ) AS r ON true
            LEFT JOIN LATERAL (
                SELECT x.ctid AS place FROM %schema%.anarchon_attempt x
                WHERE x.namespace = space AND x.job = t.item->>0
                    AND x.slot_ms = (t.item->>1)::bigint AND x.manual = t.item->>2
                    AND x.attempt = (t.item->>3)::bigint LIMIT 1
            ) AS a ON true
            LEFT JOIN LATERAL (
                SELECT true AS has_saved FROM %schema%.anarchon_checkpoint x
                WHERE x.namespace = space AND x.job = t.item->>0
                    AND x.slot_ms = (t.item->>1)::bigint AND x.manual = t.item->>2 LIMIT 1
            ) AS c ON true
            LEFT JOIN LATERAL (
                SELECT x.floor_ms FROM %schema%.anarchon_job x
                WHERE x.namespace = space AND x.job = t.item->>0 LIMIT 1
            ) AS j ON true
            WHERE todo IS NULL OR t.n = ANY (todo)
            ORDER BY t.n
        LOOP
            run := v.run;
            item := v.item;
            is_done := NULL;
            IF item->>13 = '1' AND v.turn = 1 AND (
                NOT v.is_known
                OR run.state = 'running' AND run.owner = token AND run.attempt = v.attempt
            ) THEN
                IF v.is_known THEN
                    PERFORM FROM %schema%.anarchon_run r
                    WHERE r.namespace = space AND r.job = item->>0 AND r.manual = item->>2
                        AND r.slot_ms = (item->>1)::bigint
                    FOR UPDATE SKIP LOCKED;
                    IF NOT found THEN
                        answers[v.n] := '["undecided"]';
                        CONTINUE;
                    END IF;
                END IF;
                is_done := %schema%.anarchon_is_done_v1(
                    space, item->>0, (item->>1)::bigint, item->>2, v.attempt
                );
                IF is_done THEN
                    item := %schema%.anarchon_committed_v1(item);
                ELSIF item->>4 = 'success' THEN
                    item := %schema%.anarchon_uncommitted_v1(item);
                END IF;
                items := jsonb_set(items, ARRAY[(v.n - 1)::text], item);
            END IF;
            status := item->>4;
            detail := item->>8;
            error := item->>9;
            CASE
            WHEN v.turn > 1 THEN
                again := again || v.n;
            WHEN NOT v.is_known AND operation = 'record_manual' THEN
                PERFORM %schema%.anarchon_put_v1(
                    space, head, item, 'running', (head->>2)::bigint, now_ms
                );
                answers[v.n] := json_build_array('recorded', 'running', detail);
            WHEN NOT v.is_known AND operation = 'finish'
                AND (item->>2 <> '' OR (item->>1)::bigint > v.floor_ms)
            THEN
                PERFORM %schema%.anarchon_put_v1(space, head, item, 'closed', 0, now_ms);
                answers[v.n] := json_build_array('recorded', status, detail);
                IF status = 'skipped' THEN
                    worn_skips := worn_skips || (item->>0);
                ELSE
                    worn := worn || (item->>0);
                END IF;
                IF is_done THEN
                    PERFORM %schema%.anarchon_forget_v1(space, item);
                END IF;
            WHEN NOT v.is_known OR run.owner <> token OR run.attempt <> v.attempt THEN
                answers[v.n] := '["lost"]';
            WHEN operation = 'record_manual' THEN
                answers[v.n] := json_build_array(
                    'recorded', coalesce(run.status, 'running'), run.detail
                );
            WHEN run.state = 'closed' THEN
                -- Whoever found it completed has closed it for us.
                answers[v.n] := CASE WHEN run.decided_by = token
                        OR item->>13 = '1' AND run.status = 'success'
                    THEN json_build_array('recorded', coalesce(run.status, status), run.detail)
                    ELSE '["lost"]' END;
            WHEN run.state = 'waiting' THEN
                answers[v.n] := CASE operation WHEN 'release' THEN '["released"]'::json
                    ELSE '["lost"]' END;
            ELSE
                new_state := 'closed';
                IF operation = 'release' AND is_done IS NOT TRUE THEN
                    status := 'interrupted';
                    run.deaths := run.deaths + (item->>12)::bigint;
                    IF run.cancel <> 0 THEN
                        detail := 'cancelled';
                    ELSIF item->>12 = '1' AND run.deaths >= run.budget THEN
                        status := CASE run.budget WHEN 0 THEN 'lost' ELSE 'failed' END;
                        detail := CASE run.budget WHEN 0 THEN 'runner died' END;
                        IF run.budget <> 0 THEN
                            error := %schema%.anarchon_died_v1(run.deaths)
                                || coalesce(': ' || nullif(error, ''), '');
                        END IF;
                    ELSE
                        new_state := 'waiting';
                        detail := coalesce(nullif(detail, ''), 'handed over');
                    END IF;
                END IF;
                ended := ended || v.n;
                run_places := run_places || v.run_place;
                line_places := line_places || v.line_place;
                states := states || new_state;
                died := died || run.deaths;
                statuses := statuses || status;
                details := details || detail;
                errors := errors || error;
                answers[v.n] := '["released"]';
                IF new_state = 'closed' THEN
                    answers[v.n] := json_build_array('recorded', status, detail);
                    IF status = 'skipped' THEN
                        worn_skips := worn_skips || run.job;
                    ELSE
                        worn := worn || run.job;
                    END IF;
                    IF v.has_saved THEN
                        DELETE FROM %schema%.anarchon_checkpoint c
                        WHERE c.namespace = space AND c.job = run.job
                            AND c.slot_ms = run.slot_ms AND c.manual = run.manual;
                    END IF;
                    IF is_done THEN
                        PERFORM %schema%.anarchon_forget_v1(space, item);
                    END IF;
                END IF;
            END CASE;
        END LOOP;
        UPDATE %schema%.anarchon_run r
        SET state = e.state, deaths = e.deaths, since_ms = now_ms,
            end_ms = CASE e.state WHEN 'closed' THEN r.end_ms ELSE now_ms END,
            status = CASE e.state WHEN 'closed' THEN e.status END,
            detail = CASE e.state WHEN 'closed' THEN e.detail END,
            decided_by = CASE e.state WHEN 'closed' THEN token ELSE r.decided_by END
        FROM unnest(run_places, states, died, statuses, details)
            AS e (place, state, deaths, status, detail)
        WHERE r.ctid = e.place;
        UPDATE %schema%.anarchon_attempt a
        SET status = e.status, detail = e.detail, error = coalesce(e.error, a.error),
            traceback = coalesce(e.item->>10, a.traceback),
            started_ms = coalesce(e.began_ms, a.started_ms),
            finished_ms = coalesce(e.began_ms + (e.item->>7)::bigint, now_ms),
            duration_ms = CASE WHEN e.began_ms IS NULL THEN a.duration_ms
                ELSE (e.item->>7)::bigint END
        FROM (
            SELECT u.place, u.status, u.detail, u.error, i.item,
                nullif((i.item->>6)::bigint, 0) AS began_ms
            FROM unnest(ended, line_places, statuses, details, errors)
                AS u (n, place, status, detail, error)
            CROSS JOIN LATERAL (SELECT items->(u.n::integer - 1) AS item) AS i
        ) AS e
        WHERE a.ctid = e.place;
        EXIT WHEN again = '{}';
        todo := again;
    END LOOP;
    IF worn <> '{}' OR worn_skips <> '{}' THEN
        PERFORM %schema%.anarchon_trim_all_v1(space, worn, worn_skips, now_ms);
    END IF;
    RETURN json_build_array(now_ms, array_to_json(answers));
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_finish_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('finish', space, head, items);
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_release_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('release', space, head, items);
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_record_manual_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('record_manual', space, head, items);
END
$body$;
