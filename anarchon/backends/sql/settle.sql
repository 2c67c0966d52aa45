-- How attempts end. An item is: job, slot, manual, attempt, status, reason, started, duration,
-- detail, error, traceback, fence, counted.

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

-- Finish, release or record manual runs; `operation` says which.
--
-- What is the asker's and simply ends, in most calls everything, is written in one go. A run
-- that is named again in the same call is judged when the first time was written.
CREATE OR REPLACE FUNCTION %schema%.anarchon_settle_v1(
    operation text, space text, head jsonb, items jsonb, patience_ms integer
) RETURNS json LANGUAGE plpgsql AS $body$
DECLARE
    token CONSTANT text := head->>0;
    now_ms bigint;
    v record;
    run %schema%.anarchon_run;
    todo bigint[];
    again bigint[];
    answers json[] := '{}';
    -- How the attempts end that are the asker's, by the number of their item.
    ended bigint[];
    deaths bigint[];
    states text[];
    statuses text[];
    details text[];
    errors text[];
    new_state text;
    status text;
    detail text;
    error text;
    worn text[] := '{}';
    worn_skips text[] := '{}';
BEGIN
    PERFORM %schema%.anarchon_lock_v1(
        space, ARRAY(SELECT DISTINCT t.item->>0 FROM jsonb_array_elements(items) AS t (item)),
        '{}', patience_ms
    );
    PERFORM FROM jsonb_array_elements(items) AS t (item)
    JOIN %schema%.anarchon_run r ON r.namespace = space AND r.job = t.item->>0
        AND r.slot_ms = (t.item->>1)::bigint AND r.manual = t.item->>2
    ORDER BY r.job, r.slot_ms, r.manual FOR NO KEY UPDATE OF r;
    now_ms := %schema%.anarchon_now_v1();
    LOOP
        again := '{}'; ended := '{}'; deaths := '{}'; states := '{}'; statuses := '{}';
        details := '{}'; errors := '{}';
        FOR v IN
            SELECT t.n, t.item, r AS run, r.job IS NOT NULL AS is_known, j.floor_ms,
                (t.item->>3)::bigint AS attempt,
                row_number() OVER (PARTITION BY t.item->>0, t.item->>1, t.item->>2 ORDER BY t.n)
                    AS turn
            FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
            LEFT JOIN %schema%.anarchon_run r ON r.namespace = space AND r.job = t.item->>0
                AND r.slot_ms = (t.item->>1)::bigint AND r.manual = t.item->>2
            LEFT JOIN %schema%.anarchon_job j ON j.namespace = space AND j.job = t.item->>0
            WHERE todo IS NULL OR t.n = ANY (todo)
            ORDER BY t.n
        LOOP
            run := v.run;
            status := v.item->>4;
            detail := v.item->>8;
            error := v.item->>9;
            CASE
            WHEN v.turn > 1 THEN
                again := again || v.n;
            WHEN NOT v.is_known AND operation = 'record_manual' THEN
                PERFORM %schema%.anarchon_put_v1(
                    space, head, v.item, 'running', (head->>2)::bigint, now_ms
                );
                answers[v.n] := json_build_array('recorded', 'running', detail);
            WHEN NOT v.is_known AND operation = 'finish'
                AND (v.item->>2 <> '' OR (v.item->>1)::bigint > v.floor_ms)
            THEN
                PERFORM %schema%.anarchon_put_v1(space, head, v.item, 'closed', 0, now_ms);
                answers[v.n] := json_build_array('recorded', status, detail);
                IF status = 'skipped' THEN
                    worn_skips := worn_skips || (v.item->>0);
                ELSE
                    worn := worn || (v.item->>0);
                END IF;
            WHEN NOT v.is_known OR run.owner <> token OR run.attempt <> v.attempt THEN
                answers[v.n] := '["lost"]';
            WHEN operation = 'record_manual' THEN
                answers[v.n] := json_build_array(
                    'recorded', coalesce(run.status, 'running'), run.detail
                );
            WHEN run.state = 'closed' THEN
                answers[v.n] := CASE WHEN run.decided_by = token
                    THEN json_build_array('recorded', coalesce(run.status, status), run.detail)
                    ELSE '["lost"]' END;
            WHEN run.state = 'waiting' THEN
                answers[v.n] := CASE operation WHEN 'release' THEN '["released"]'::json
                    ELSE '["lost"]' END;
            ELSE
                new_state := 'closed';
                IF operation = 'release' THEN
                    status := 'interrupted';
                    run.deaths := run.deaths + (v.item->>12)::bigint;
                    IF run.cancel <> 0 THEN
                        detail := 'cancelled';
                    ELSIF v.item->>12 = '1' AND run.deaths >= run.budget THEN
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
                deaths := deaths || run.deaths;
                states := states || new_state;
                statuses := statuses || status;
                details := details || detail;
                errors := errors || error;
                answers[v.n] := CASE new_state
                    WHEN 'closed' THEN json_build_array('recorded', status, detail)
                    ELSE '["released"]' END;
            END CASE;
        END LOOP;
        IF ended <> '{}' THEN
            PERFORM %schema%.anarchon_write_ends_v1(
                space, token, items, ended, deaths, states, statuses, details, errors, now_ms
            );
            worn := worn || ARRAY(
                SELECT items->(e.n::integer - 1)->>0 FROM unnest(ended, states, statuses)
                    AS e (n, state, status)
                WHERE e.state = 'closed' AND e.status <> 'skipped'
            );
            worn_skips := worn_skips || ARRAY(
                SELECT items->(e.n::integer - 1)->>0 FROM unnest(ended, states, statuses)
                    AS e (n, state, status)
                WHERE e.state = 'closed' AND e.status = 'skipped'
            );
        END IF;
        EXIT WHEN again = '{}';
        todo := again;
    END LOOP;
    PERFORM %schema%.anarchon_trim_v1(space, kinds.job, kinds.of_skips, now_ms) FROM (
        SELECT DISTINCT x.job, false AS of_skips FROM unnest(worn) AS x (job)
        UNION ALL SELECT DISTINCT x.job, true FROM unnest(worn_skips) AS x (job)
    ) AS kinds;
    RETURN json_build_array(now_ms, array_to_json(answers));
END
$body$;

-- Write how attempts end: their runs, their lines, and away with the checkpoints of the closed.
CREATE OR REPLACE FUNCTION %schema%.anarchon_write_ends_v1(
    space text, token text, items jsonb, ended bigint[], new_deaths bigint[],
    new_states text[], new_statuses text[], new_details text[], new_errors text[], now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE %schema%.anarchon_run r
    SET state = e.state, deaths = e.deaths, since_ms = now_ms,
        end_ms = CASE e.state WHEN 'waiting' THEN now_ms ELSE r.end_ms END,
        status = CASE e.state WHEN 'closed' THEN e.status ELSE r.status END,
        detail = CASE e.state WHEN 'closed' THEN e.detail ELSE r.detail END,
        decided_by = CASE e.state WHEN 'closed' THEN token ELSE r.decided_by END
    FROM unnest(ended, new_deaths, new_states, new_statuses, new_details)
        AS e (n, deaths, state, status, detail)
    WHERE r.namespace = space AND r.job = items->(e.n::integer - 1)->>0
        AND r.slot_ms = (items->(e.n::integer - 1)->>1)::bigint
        AND r.manual = items->(e.n::integer - 1)->>2;
    UPDATE %schema%.anarchon_attempt a
    SET status = e.status, detail = e.detail, error = coalesce(e.error, a.error),
        traceback = coalesce(e.item->>10, a.traceback),
        started_ms = coalesce(e.started_ms, a.started_ms),
        finished_ms = coalesce(e.started_ms + (e.item->>7)::bigint, now_ms),
        duration_ms = CASE WHEN e.started_ms IS NULL THEN a.duration_ms
            ELSE (e.item->>7)::bigint END
    FROM (
        SELECT x.status, x.detail, x.error, items->(x.n::integer - 1) AS item,
            nullif((items->(x.n::integer - 1)->>6)::bigint, 0) AS started_ms
        FROM unnest(ended, new_statuses, new_details, new_errors) AS x (n, status, detail, error)
        OFFSET 0
    ) AS e
    WHERE a.namespace = space AND a.job = e.item->>0 AND a.slot_ms = (e.item->>1)::bigint
        AND a.manual = e.item->>2 AND a.attempt = (e.item->>3)::bigint;
    DELETE FROM %schema%.anarchon_checkpoint c
    USING unnest(ended, new_states) AS e (n, state)
    WHERE e.state = 'closed' AND c.namespace = space
        AND c.job = items->(e.n::integer - 1)->>0
        AND c.slot_ms = (items->(e.n::integer - 1)->>1)::bigint
        AND c.manual = items->(e.n::integer - 1)->>2;
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_finish_v1(
    space text, head jsonb, items jsonb, patience_ms integer
) RETURNS json LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('finish', space, head, items, patience_ms);
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_release_v1(
    space text, head jsonb, items jsonb, patience_ms integer
) RETURNS json LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('release', space, head, items, patience_ms);
END
$body$;

CREATE OR REPLACE FUNCTION %schema%.anarchon_record_manual_v1(
    space text, head jsonb, items jsonb, patience_ms integer
) RETURNS json LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
BEGIN
    RETURN %schema%.anarchon_settle_v1('record_manual', space, head, items, patience_ms);
END
$body$;
