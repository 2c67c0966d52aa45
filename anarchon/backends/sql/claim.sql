-- Claims. The verdicts, in the order in which they are looked for:
--
--   closed      it is decided
--   extend      it is the asker's already: its lease is extended
--   held        somebody runs it
--   waiting     it was handed over, and another attempt than the next is asked for
--   lapsed      it was handed over too long ago: to be closed
--   next        it was handed over: its next attempt may start
--   dead        its runner died, and nobody may go on: to be closed
--   over        its runner died: its next attempt may start
--   trimmed     it was removed from history
--   missing     a later attempt is asked for, and there is no record
--   early       it isn't due by this clock
--   newer, paused, overlap      to be recorded as skipped
--   suspect     a dead run of the job must be closed first
--   first       its first attempt may start

-- Judge wishes as they stand now, those with these numbers; nothing is written.
CREATE OR REPLACE FUNCTION %schema%.anarchon_judge_v1(
    space text, head jsonb, items jsonb, numbers bigint[], now_ms bigint
) RETURNS TABLE (
    n bigint, wish jsonb, verdict text, is_mine boolean, mine bigint,
    run %schema%.anarchon_run, last_fence bigint, others %schema%.anarchon_run[], stale %schema%.anarchon_run[]
) LANGUAGE plpgsql STABLE AS $body$
#variable_conflict use_column
DECLARE
    token CONSTANT text := head->>0;
    tolerance_ms CONSTANT bigint := head->>3;
    moved_ms CONSTANT bigint := abs(now_ms - (head->>4)::bigint);
    steady_ms CONSTANT bigint := head->>5;
    all_paused CONSTANT boolean := EXISTS (
        SELECT FROM %schema%.anarchon_namespace s
        WHERE s.namespace = space AND s.paused_until_ms > now_ms
    );
BEGIN
    RETURN QUERY
    SELECT w.n, w.wish,
        CASE
        WHEN r.state = 'closed' THEN 'closed'
        WHEN r.manual <> '' THEN 'held'
        WHEN r.state = 'running' THEN
            CASE
            WHEN m.is_mine THEN 'extend'
            WHEN w.wants <> r.attempt + 1 OR w.beat <> r.beat OR NOT (
                w.unseen_ms >= r.lease_ms OR r.end_ms <= now_ms AND (
                    w.unseen_ms >= r.lease_ms - %schema%.anarchon_margin_v1(r.lease_ms)
                    OR moved_ms < %schema%.anarchon_margin_v1(r.lease_ms) / 2
                    AND steady_ms >= r.lease_ms - %schema%.anarchon_margin_v1(r.lease_ms)
                )
            ) THEN 'held'
            WHEN NOT %schema%.anarchon_continuable_v1(r, w.catch_up_ms, now_ms) THEN 'dead'
            WHEN p.paused THEN 'held'
            ELSE 'over'
            END
        WHEN r.state = 'waiting' THEN
            CASE
            WHEN w.wants <> r.attempt + 1 THEN 'waiting'
            WHEN %schema%.anarchon_too_old_v1(r.end_ms, r.lease_ms, w.catch_up_ms, now_ms)
                THEN 'lapsed'
            WHEN p.paused THEN 'waiting'
            ELSE 'next'
            END
        WHEN w.manual <> '' THEN 'missing'
        WHEN w.slot_ms <= j.floor_ms THEN 'trimmed'
        WHEN w.wants > 1 THEN 'missing'
        WHEN w.slot_ms - now_ms > tolerance_ms THEN 'early'
        WHEN EXISTS (
            SELECT FROM %schema%.anarchon_run x
            WHERE x.namespace = space AND x.job = w.job AND x.slot_ms > w.slot_ms
                AND x.slot_ms <= now_ms AND x.manual = ''
        ) THEN 'newer'
        WHEN p.paused THEN 'paused'
        WHEN NOT w.skip_overlap OR o.runs IS NULL THEN 'first'
        WHEN EXISTS (
            SELECT FROM unnest(o.runs) AS x
            WHERE x.state = 'running' AND x.end_ms > now_ms
                OR %schema%.anarchon_continuable_v1(x, w.catch_up_ms, now_ms)
        ) THEN 'overlap'
        WHEN EXISTS (SELECT FROM unnest(o.runs) AS x WHERE x.state = 'running') THEN 'suspect'
        ELSE 'first'
        END,
        m.is_mine, count(*) FILTER (WHERE m.is_mine) OVER (),
        r, coalesce(j.fence, 0), o.runs,
        CASE WHEN o.runs IS NOT NULL AND w.skip_overlap THEN ARRAY(
            SELECT x FROM unnest(o.runs) AS x
            WHERE x.state = 'waiting' AND %schema%.anarchon_too_old_v1(
                x.end_ms, x.lease_ms, w.catch_up_ms, now_ms
            )
        ) END
    FROM (
        SELECT t.n, t.wish, t.wish->>0 AS job, (t.wish->>1)::bigint AS slot_ms,
            (t.wish->>2)::bigint AS wants, (t.wish->>4)::bigint AS beat,
            coalesce((t.wish->>5)::bigint, -1) AS unseen_ms,
            t.wish->>10 = '1' AS skip_overlap, (t.wish->>11)::bigint AS catch_up_ms,
            t.wish->>12 AS manual
        FROM jsonb_array_elements(items) WITH ORDINALITY AS t (wish, n)
        WHERE numbers IS NULL OR t.n = ANY (numbers)
        OFFSET 0  -- so that each word is read once
    ) AS w
    LEFT JOIN %schema%.anarchon_job j ON j.namespace = space AND j.job = w.job
    LEFT JOIN %schema%.anarchon_run r
        ON r.namespace = space AND r.job = w.job AND r.slot_ms = w.slot_ms
        AND r.manual = w.manual
    CROSS JOIN LATERAL (
        SELECT coalesce(
            r.state = 'running' AND r.owner = token AND r.attempt = w.wants, false
        ) AS is_mine
    ) AS m
    CROSS JOIN LATERAL (
        SELECT all_paused OR coalesce(j.paused_until_ms > now_ms, false) AS paused
    ) AS p
    CROSS JOIN LATERAL (
        SELECT array_agg(x ORDER BY x.slot_ms) AS runs FROM %schema%.anarchon_run x
        WHERE x.namespace = space AND x.job = w.job AND x.state <> 'closed' AND x.manual = ''
            AND (x.slot_ms <> w.slot_ms OR w.manual <> '')
    ) AS o
    ORDER BY w.n;
END
$body$;

-- The answer to a verdict when nothing is written.
CREATE OR REPLACE FUNCTION %schema%.anarchon_answer_v1(
    verdict text, wish jsonb, run %schema%.anarchon_run, others %schema%.anarchon_run[],
    token text, now_ms bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $body$
DECLARE
    dead %schema%.anarchon_run;
BEGIN
    CASE verdict
    WHEN 'held', 'extend', 'over', 'dead' THEN
        RETURN %schema%.anarchon_open_v1('held', run, now_ms);
    WHEN 'closed' THEN
        RETURN %schema%.anarchon_closed_v1(run, token);
    WHEN 'first', 'newer', 'paused', 'overlap' THEN
        RETURN '["free"]';
    WHEN 'waiting', 'next', 'lapsed' THEN
        RETURN json_build_array('waiting', run.attempt);
    WHEN 'early' THEN
        RETURN json_build_array('early', (wish->>1)::bigint - now_ms);
    WHEN 'missing' THEN
        RETURN '["missing"]';
    WHEN 'trimmed' THEN
        RETURN '["closed", "skipped", "trimmed", "", null]';
    WHEN 'suspect' THEN
        SELECT x.* INTO dead FROM unnest(others) AS x
        WHERE x.state = 'running' ORDER BY x.slot_ms LIMIT 1;
        RETURN json_build_array(
            'suspect', dead.slot_ms, dead.state, dead.attempt, dead.beat, dead.end_ms - now_ms,
            dead.lease_ms, dead.heartbeat_ms, dead.owner
        );
    END CASE;
END
$body$;

-- The run of a wish as it will be while its attempt runs.
CREATE OR REPLACE FUNCTION %schema%.anarchon_start_v1(
    space text, token text, wish jsonb, last_fence bigint, now_ms bigint
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql STABLE AS $body$
DECLARE
    -- A value that leaves no room below 2**53 is nonsense and doesn't count.
    top CONSTANT bigint := 9007199254740991;
    seen CONSTANT bigint := (wish->>6)::bigint + 1;
    slot_ms CONSTANT bigint := wish->>1;
    lease_ms CONSTANT bigint := wish->>7;
    fence bigint := greatest(last_fence + 1, 0);
BEGIN
    IF seen <= top THEN
        fence := greatest(fence, seen);
    END IF;
    IF now_ms * 1000 <= top THEN
        fence := greatest(fence, now_ms * 1000);
    END IF;
    RETURN ROW(
        space, wish->>0, slot_ms, '', (wish->>2)::bigint, 'running', token, now_ms + lease_ms,
        lease_ms, (wish->>8)::bigint, 0, least(fence, top), 0, (wish->>9)::bigint,
        (wish->>11)::bigint, 0, NULL, NULL, '', now_ms,
        CASE WHEN wish->>10 = '1' THEN -9007199254740992 ELSE slot_ms END
    )::%schema%.anarchon_run;
END
$body$;

-- The answer to an attempt that is the asker's now.
CREATE OR REPLACE FUNCTION %schema%.anarchon_won_v1(
    run %schema%.anarchon_run, left_ms bigint
) RETURNS json LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN json_build_array('won', run.attempt, left_ms, run.fence, (
        SELECT c.value FROM %schema%.anarchon_checkpoint c
        WHERE c.namespace = run.namespace AND c.job = run.job AND c.slot_ms = run.slot_ms
            AND c.manual = run.manual
    ));
END
$body$;

-- Close a run whose runner died, under the name that its death deserves.
CREATE OR REPLACE FUNCTION %schema%.anarchon_bury_v1(
    run %schema%.anarchon_run, token text, now_ms bigint
) RETURNS %schema%.anarchon_run LANGUAGE plpgsql AS $body$
BEGIN
    run.deaths := run.deaths + 1;
    IF run.cancel <> 0 THEN
        RETURN %schema%.anarchon_close_v1(run, token, 'interrupted', 'cancelled', now_ms, now_ms);
    ELSIF run.budget <> 0 AND run.deaths >= run.budget THEN
        RETURN %schema%.anarchon_close_v1(
            run, token, 'failed', NULL, now_ms, now_ms, %schema%.anarchon_died_v1(run.deaths)
        );
    END IF;
    RETURN %schema%.anarchon_close_v1(
        run, token, 'lost', CASE WHEN run.budget <> 0 THEN 'too old' ELSE 'runner died' END,
        now_ms, now_ms
    );
END
$body$;

-- Who runs these attempts.
--
-- Most claims are lost, so what is decided already is answered without a lock. Of what may
-- start, as many as may be won are chosen, in the order sent; their jobs are locked, and they
-- are judged again. When some of them were lost meanwhile, the next ones are tried, where
-- nobody else is about to decide them.
CREATE OR REPLACE FUNCTION %schema%.anarchon_claim_v1(
    space text, head jsonb, items jsonb, patience_ms integer
) RETURNS json LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $body$
DECLARE
    starts CONSTANT text[] := '{first,next,over}';
    foreign_ones CONSTANT text[] := '{next,over,lapsed,dead}';
    writes CONSTANT text[] := '{first,next,over,lapsed,dead,extend,newer,paused,overlap}';
    token CONSTANT text := head->>0;
    instance CONSTANT text := head->>1;
    wins bigint := head->>2;
    now_ms bigint;
    v record;
    pass integer := 0;
    todo bigint[];          -- wishes that may still be won; null: all
    spare bigint;           -- how many more of them are chosen in this pass
    chosen bigint[];        -- to be judged under locks
    jobs text[];            -- theirs, in the same order
    later bigint[];         -- over the bound, and free
    later_jobs text[];
    extended bigint[];      -- of the chosen: the asker's, whose rows are waited for
    foreign_runs bigint[];  -- and the ones of others, whose rows are not
    verdict text;
    run %schema%.anarchon_run;
    stale %schema%.anarchon_run;
    runs %schema%.anarchon_run[];
    lines %schema%.anarchon_attempt[];
    answers json[] := '{}';
    opened json[] := '{}';
    closed json[] := '{}';
    worn text[] := '{}';
    worn_skips text[] := '{}';
BEGIN
    LOOP
        pass := pass + 1;
        now_ms := %schema%.anarchon_now_v1();
        spare := NULL;
        chosen := '{}'; jobs := '{}'; later := '{}'; later_jobs := '{}';
        extended := '{}'; foreign_runs := '{}';
        FOR v IN SELECT * FROM %schema%.anarchon_judge_v1(space, head, items, todo, now_ms) LOOP
            spare := coalesce(spare, wins - v.mine);
            answers[v.n] := %schema%.anarchon_answer_v1(
                v.verdict, v.wish, v.run, v.others, token, now_ms
            );
            IF v.others IS NOT NULL THEN
                opened[v.n] := %schema%.anarchon_others_v1(v.others, '{}', now_ms);
            END IF;
            IF v.verdict = ANY (starts) AND spare <= 0 AND coalesce(cardinality(v.stale), 0) = 0
            THEN
                later := later || v.n;
                later_jobs := later_jobs || (v.wish->>0);
            ELSIF (v.verdict = ANY (writes) OR cardinality(v.stale) > 0)
                AND v.wish->>0 <> ALL (jobs) AND (pass = 1 OR v.verdict <> 'extend')
            THEN
                chosen := chosen || v.n;
                jobs := jobs || (v.wish->>0);
                IF v.verdict = ANY (starts) THEN
                    spare := spare - 1;
                END IF;
                IF v.verdict = 'extend' THEN
                    extended := extended || v.n;
                ELSIF v.verdict = ANY (foreign_ones) THEN
                    foreign_runs := foreign_runs || v.n;
                END IF;
            ELSIF v.is_mine THEN
                wins := wins - 1;
            END IF;
        END LOOP;
        EXIT WHEN chosen = '{}';

        IF pass = 1 THEN
            PERFORM %schema%.anarchon_lock_v1(space, jobs, later_jobs, patience_ms);
        ELSE
            chosen := ARRAY(
                SELECT c.n FROM unnest(chosen, jobs) AS c (n, job)
                WHERE c.job IN (
                    SELECT j.job FROM %schema%.anarchon_job j
                    WHERE j.namespace = space AND j.job = ANY (jobs)
                    FOR NO KEY UPDATE SKIP LOCKED
                ) ORDER BY c.n
            );
            IF chosen = '{}' THEN  -- others decide about these just now
                EXIT WHEN later = '{}';
                todo := later;
                CONTINUE;
            END IF;
        END IF;
        IF extended <> '{}' THEN
            PERFORM FROM unnest(extended) AS e (n)
            JOIN %schema%.anarchon_run r ON r.namespace = space
                AND r.job = items->(e.n::integer - 1)->>0 AND r.manual = ''
                AND r.slot_ms = (items->(e.n::integer - 1)->>1)::bigint
            ORDER BY r.job, r.slot_ms FOR NO KEY UPDATE OF r;
        END IF;
        IF foreign_runs <> '{}' THEN
            -- FOR UPDATE, because a user's transaction that holds the row FOR KEY SHARE must
            -- hold off whatever ends the attempt, and not only what changes its key.
            foreign_runs := ARRAY(
                SELECT e.n FROM unnest(foreign_runs) AS e (n)
                JOIN %schema%.anarchon_run r ON r.namespace = space
                    AND r.job = items->(e.n::integer - 1)->>0 AND r.manual = ''
                    AND r.slot_ms = (items->(e.n::integer - 1)->>1)::bigint
                FOR UPDATE OF r SKIP LOCKED
            );
        END IF;

        now_ms := %schema%.anarchon_now_v1();
        runs := '{}'; lines := '{}';
        spare := NULL;
        FOR v IN SELECT * FROM %schema%.anarchon_judge_v1(space, head, items, chosen, now_ms) LOOP
            IF spare IS NULL THEN  -- what is the asker's counts, wherever it stands
                wins := wins - v.mine;
                spare := wins;
            END IF;
            verdict := v.verdict;
            run := v.run;
            IF verdict = ANY (foreign_ones) AND v.n <> ALL (foreign_runs)
                OR verdict = ANY (starts) AND wins <= 0
            THEN
                verdict := 'none';
            END IF;
            CASE
            WHEN verdict = 'extend' THEN
                IF v.n = ANY (extended) THEN
                    UPDATE %schema%.anarchon_run r
                    SET end_ms = now_ms + (v.wish->>7)::bigint, lease_ms = (v.wish->>7)::bigint,
                        beat = r.beat + 1
                    WHERE r.namespace = space AND r.job = run.job AND r.slot_ms = run.slot_ms
                        AND r.manual = ''
                    RETURNING r.* INTO run;
                END IF;  -- else it was won a moment ago, by an earlier copy of this claim
                answers[v.n] := %schema%.anarchon_won_v1(run, run.end_ms - now_ms);
            WHEN verdict = 'first' THEN
                wins := wins - 1;
                run := %schema%.anarchon_start_v1(space, token, v.wish, v.last_fence, now_ms);
                answers[v.n] := json_build_array('won', run.attempt, run.lease_ms, run.fence, NULL);
                runs := runs || run;
                lines := lines || %schema%.anarchon_opened_v1(run, v.wish->>3, instance);
            WHEN verdict IN ('next', 'over') THEN
                wins := wins - 1;
                IF verdict = 'over' THEN
                    PERFORM %schema%.anarchon_end_v1(run, 'lost', 'taken over', now_ms);
                END IF;
                run := %schema%.anarchon_follow_v1(
                    run, %schema%.anarchon_start_v1(space, token, v.wish, v.last_fence, now_ms)
                );
                INSERT INTO %schema%.anarchon_attempt
                SELECT a.* FROM %schema%.anarchon_opened_v1(run, v.wish->>3, instance) AS a;
                PERFORM %schema%.anarchon_count_v1(ARRAY[run]);
                answers[v.n] := %schema%.anarchon_won_v1(run, run.lease_ms);
            WHEN verdict IN ('dead', 'lapsed') THEN
                IF verdict = 'dead' THEN
                    run := %schema%.anarchon_bury_v1(run, token, now_ms);
                ELSE
                    run := %schema%.anarchon_close_v1(run, token, 'lost', 'too old', NULL, now_ms);
                END IF;
                worn := worn || run.job;
                answers[v.n] := %schema%.anarchon_closed_v1(run, token);
            WHEN verdict IN ('newer', 'paused', 'overlap') THEN
                run := %schema%.anarchon_never_v1(
                    space, token, v.wish->>0, (v.wish->>1)::bigint, 'skipped',
                    CASE verdict WHEN 'newer' THEN 'newer slot' ELSE verdict END, now_ms
                );
                runs := runs || run;
                lines := lines || %schema%.anarchon_opened_v1(run, 'scheduled', instance);
                worn_skips := worn_skips || run.job;
                answers[v.n] := json_build_array(
                    'closed', run.status, run.detail, token,
                    %schema%.anarchon_line_v1(lines[cardinality(lines)])
                );
            ELSE
                answers[v.n] := %schema%.anarchon_answer_v1(
                    v.verdict, v.wish, v.run, v.others, token, now_ms
                );
            END CASE;
            IF v.verdict IN ('first', 'overlap', 'suspect') AND cardinality(v.stale) > 0 THEN
                FOREACH stale IN ARRAY v.stale LOOP
                    stale := %schema%.anarchon_close_v1(
                        stale, token, 'lost', 'too old', NULL, now_ms
                    );
                    closed := closed || %schema%.anarchon_record_v1(stale);
                    worn := worn || stale.job;
                END LOOP;
                opened[v.n] := %schema%.anarchon_others_v1(v.others, v.stale, now_ms);
            ELSIF v.others IS NOT NULL THEN
                opened[v.n] := %schema%.anarchon_others_v1(v.others, '{}', now_ms);
            ELSE
                opened[v.n] := NULL;
            END IF;
        END LOOP;
        IF runs <> '{}' THEN
            PERFORM %schema%.anarchon_insert_v1(runs, lines);
        END IF;
        EXIT WHEN later = '{}' OR wins <= 0;
        todo := later;
    END LOOP;
    PERFORM %schema%.anarchon_trim_v1(space, job, of_skips, now_ms) FROM (
        SELECT DISTINCT x.job, false AS of_skips FROM unnest(worn) AS x (job)
        UNION ALL SELECT DISTINCT x.job, true FROM unnest(worn_skips) AS x (job)
    ) AS kinds;
    RETURN json_build_array(
        now_ms, array_to_json(answers), %schema%.anarchon_flat_v1(opened), array_to_json(closed)
    );
END
$body$;
