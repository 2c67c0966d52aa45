-- Claims. The verdicts, in the order in which they are looked for:
--
--   closed      it is decided
--   extend      it is the asker's already: its lease is extended
--   held        somebody runs it
--   waiting     it was handed over, and another attempt than the next is asked for; or it is a
--               backfill, and another one has to run before (see orders.sql)
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
--
-- Whoever is about to follow an attempt, or to bury it, has its row alone, and first looks
-- whether a transaction of the handler has completed it. Then it is done, whatever was judged.

-- Judge a wish as it stands now. `others` are the open runs of the job's other slots, oldest
-- first; `has_newer`: a later slot that is due is recorded; `must_wait`: for another backfill.
CREATE OR REPLACE FUNCTION %schema%.anarchon_verdict_v1(
    head jsonb, wish jsonb, run %schema%.anarchon_run, is_mine boolean, floor_ms bigint,
    is_paused boolean, has_newer boolean, must_wait boolean, others %schema%.anarchon_run[],
    now_ms bigint
) RETURNS text LANGUAGE plpgsql STABLE AS $body$
DECLARE
    wants CONSTANT bigint := wish->>2;
    catch_up_ms bigint;
    unseen_ms bigint;
    witness_ms double precision;
    o %schema%.anarchon_run;
    has_dead boolean := false;
BEGIN
    IF run.state = 'closed' THEN
        RETURN 'closed';
    ELSIF is_mine THEN
        RETURN 'extend';
    ELSIF run.manual <> '' AND run.state <> 'waiting' THEN
        RETURN 'held';  -- nobody takes it over
    END IF;
    catch_up_ms := wish->>11;
    IF run.state = 'waiting' THEN
        IF wants <> run.attempt + 1 OR must_wait THEN
            RETURN 'waiting';
        ELSIF now_ms - run.end_ms > greatest(catch_up_ms, 3 * run.lease_ms) THEN
            RETURN 'lapsed';
        END IF;
        RETURN CASE WHEN is_paused AND (run.manual = '' OR run.manual LIKE 'backfill-%')
            THEN 'waiting' ELSE 'next' END;
    ELSIF run.state = 'running' THEN
        IF wants <> run.attempt + 1 OR (wish->>4)::bigint <> run.beat THEN
            RETURN 'held';
        END IF;
        unseen_ms := coalesce((wish->>5)::bigint, -1);
        witness_ms := run.lease_ms - greatest(run.lease_ms / 10.0::double precision, 250);
        -- Unseen for a whole lease is always enough. For less, the lease has ended by this
        -- clock, and the asker watched it for the witness, or its clock agrees with this one.
        IF unseen_ms < run.lease_ms AND (
            run.end_ms > now_ms OR unseen_ms < witness_ms AND (
                (head->>5)::bigint < witness_ms
                OR abs(now_ms - (head->>4)::bigint) >= (run.lease_ms - witness_ms) / 2
            )
        ) THEN
            RETURN 'held';
        ELSIF NOT %schema%.anarchon_continuable_v1(run, catch_up_ms, now_ms) THEN
            RETURN 'dead';
        END IF;
        RETURN CASE WHEN is_paused THEN 'held' ELSE 'over' END;
    ELSIF wish->>12 <> '' THEN
        RETURN 'missing';
    ELSIF (wish->>1)::bigint <= floor_ms THEN
        RETURN 'trimmed';
    ELSIF wants > 1 THEN
        RETURN 'missing';
    ELSIF (wish->>1)::bigint - now_ms > (head->>3)::bigint THEN
        RETURN 'early';
    ELSIF has_newer THEN
        RETURN 'newer';
    ELSIF is_paused THEN
        RETURN 'paused';
    ELSIF others IS NULL OR wish->>10 <> '1' THEN
        RETURN 'first';
    END IF;
    FOREACH o IN ARRAY others LOOP
        IF o.state = 'running' AND o.end_ms > now_ms
            OR %schema%.anarchon_continuable_v1(o, catch_up_ms, now_ms)
        THEN
            RETURN 'overlap';
        END IF;
        has_dead := has_dead OR o.state = 'running';
    END LOOP;
    RETURN CASE WHEN has_dead THEN 'suspect' ELSE 'first' END;
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
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    starts CONSTANT text[] := '{first,next,over}';
    foreign_ones CONSTANT text[] := '{next,over,lapsed,dead}';
    writes CONSTANT text[] := '{first,next,over,lapsed,dead,extend,newer,paused,overlap}';
    token CONSTANT text := head->>0;
    instance CONSTANT text := head->>1;
    wins bigint := head->>2;
    now_ms bigint;
    v record;
    verdict text;
    is_locked boolean := false;  -- the pass that writes; it follows each that looks
    is_first boolean := true;
    todo bigint[];          -- the numbers of the wishes to be judged; null: all
    spare bigint;           -- how many more starts are chosen in this pass
    chosen bigint[];        -- to be judged under locks
    jobs text[];            -- theirs, in the same order
    later bigint[];         -- over the bound, and free
    new_jobs text[];        -- jobs of those that have no row yet
    extended bigint[];      -- of the chosen: the asker's, whose rows are waited for
    foreign_runs bigint[];  -- and the ones of others, whose rows are not
    run %schema%.anarchon_run;
    stale %schema%.anarchon_run[];
    dead %schema%.anarchon_run[];
    runs %schema%.anarchon_run[];
    lines %schema%.anarchon_attempt[];
    answers json[] := '{}';
    opened json[];
    closed json[] := '{}';
    worn text[] := '{}';
    worn_skips text[] := '{}';
BEGIN
    LOOP
        now_ms := %schema%.anarchon_now_v1();
        IF is_locked THEN
            runs := '{}'; lines := '{}';
        ELSE
            chosen := '{}'; jobs := '{}'; later := '{}'; new_jobs := '{}';
            extended := '{}'; foreign_runs := '{}'; spare := NULL;
        END IF;
        FOR v IN
            SELECT w.n, w.wish, r.run, coalesce(j.fence, 0) AS last_fence,
                j.floor_ms, j.floor_ms IS NULL AS is_new_job, o.runs AS others,
                coalesce(j.paused_until_ms > now_ms, false) OR s.is_paused AS is_paused,
                m.is_mine,
                CASE WHEN w.wish->>12 LIKE 'backfill-%' AND (r.run).state = 'waiting'
                    THEN %schema%.anarchon_must_wait_v1(
                        space, w.wish->>0, (w.wish->>1)::bigint, w.wish->>12, now_ms
                    ) ELSE false END AS must_wait,
                (r.run).job IS NULL AND EXISTS (
                    SELECT FROM %schema%.anarchon_run x
                    WHERE x.namespace = space AND x.job = w.wish->>0 AND x.manual = ''
                        AND x.slot_ms > (w.wish->>1)::bigint AND x.slot_ms <= now_ms
                ) AS has_newer
            FROM jsonb_array_elements(items) WITH ORDINALITY AS w (wish, n)
            LEFT JOIN LATERAL (
                SELECT x.fence, x.floor_ms, x.paused_until_ms FROM %schema%.anarchon_job x
                WHERE x.namespace = space AND x.job = w.wish->>0 LIMIT 1
            ) AS j ON true
            LEFT JOIN LATERAL (
                SELECT x AS run FROM %schema%.anarchon_run x
                WHERE x.namespace = space AND x.job = w.wish->>0
                    AND x.slot_ms = (w.wish->>1)::bigint AND x.manual = w.wish->>12 LIMIT 1
            ) AS r ON true
            CROSS JOIN LATERAL (
                SELECT coalesce((r.run).state = 'running' AND (r.run).owner = token
                    AND (r.run).attempt = (w.wish->>2)::bigint, false) AS is_mine
            ) AS m
            CROSS JOIN LATERAL (
                SELECT array_agg(x ORDER BY x.slot_ms) AS runs FROM %schema%.anarchon_run x
                WHERE x.namespace = space AND x.job = w.wish->>0
                    AND x.state <> 'closed' AND x.manual = ''
                    AND (x.slot_ms <> (w.wish->>1)::bigint OR w.wish->>12 <> '')
            ) AS o
            CROSS JOIN (
                SELECT EXISTS (
                    SELECT FROM %schema%.anarchon_namespace x
                    WHERE x.namespace = space AND x.paused_until_ms > now_ms
                ) AS is_paused
            ) AS s
            WHERE todo IS NULL OR w.n = ANY (todo)
            ORDER BY m.is_mine DESC, w.n  -- the asker's own count, wherever they stand
        LOOP
            run := v.run;
            verdict := %schema%.anarchon_verdict_v1(
                head, v.wish, run, v.is_mine, v.floor_ms, v.is_paused, v.has_newer, v.must_wait,
                v.others, now_ms
            );
            stale := NULL;
            IF v.others IS NOT NULL THEN
                IF v.wish->>10 = '1' AND verdict IN ('first', 'overlap', 'suspect') THEN
                    stale := ARRAY(
                        SELECT x FROM unnest(v.others) AS x WHERE x.state = 'waiting'
                            AND now_ms - x.end_ms
                                > greatest((v.wish->>11)::bigint, 3 * x.lease_ms)
                    );
                END IF;
                opened[v.n] := %schema%.anarchon_others_v1(v.others, stale, now_ms);
            ELSIF opened IS NOT NULL THEN  -- in an earlier look, perhaps
                opened[v.n] := NULL;
            END IF;

            IF NOT is_locked THEN
                spare := coalesce(spare, wins) - v.is_mine::integer;
                IF verdict = ANY (writes) OR cardinality(stale) > 0 THEN
                    IF verdict = ANY (starts) AND spare <= 0
                        AND coalesce(cardinality(stale), 0) = 0
                    THEN
                        later := later || v.n;
                    ELSIF v.wish->>0 <> ALL (jobs) AND (is_first OR verdict <> 'extend') THEN
                        chosen := chosen || v.n;
                        jobs := jobs || (v.wish->>0);
                        IF verdict = ANY (starts) THEN
                            spare := spare - 1;
                        END IF;
                        IF verdict = 'extend' THEN
                            extended := extended || v.n;
                        ELSIF verdict = ANY (foreign_ones) THEN
                            foreign_runs := foreign_runs || v.n;
                        END IF;
                    END IF;
                    IF v.is_new_job THEN
                        new_jobs := new_jobs || (v.wish->>0);
                    END IF;
                END IF;
                IF v.is_mine AND (chosen = '{}' OR chosen[cardinality(chosen)] <> v.n) THEN
                    wins := wins - 1;
                END IF;
                answers[v.n] := %schema%.anarchon_answer_v1(
                    verdict, v.wish, run, v.others, token, now_ms
                );
                CONTINUE;
            END IF;

            wins := wins - v.is_mine::integer;
            IF cardinality(stale) > 0 THEN
                FOREACH run IN ARRAY stale LOOP
                    run := %schema%.anarchon_give_up_v1(run, token, 'lost', 'too old', now_ms);
                    closed := closed || %schema%.anarchon_record_v1(run);
                    worn := worn || run.job;
                END LOOP;
                run := v.run;
            END IF;
            IF verdict = ANY (foreign_ones) AND v.n <> ALL (foreign_runs)
                OR verdict = ANY (starts) AND wins <= 0
                OR verdict <> ALL (writes)
            THEN
                answers[v.n] := %schema%.anarchon_answer_v1(
                    verdict, v.wish, run, v.others, token, now_ms
                );
                CONTINUE;
            END IF;
            IF verdict = ANY (foreign_ones) AND %schema%.anarchon_is_done_v1(
                space, run.job, run.slot_ms, run.manual, run.attempt
            ) THEN
                verdict := 'done';
            END IF;
            IF verdict = 'next' AND run.manual LIKE 'backfill-%' THEN
                dead := %schema%.anarchon_bury_backfills_v1(space, run.job, token, now_ms);
                IF dead IS NULL THEN
                    answers[v.n] := json_build_array('waiting', run.attempt);
                    CONTINUE;
                END IF;
                FOR n IN 1 .. cardinality(dead) LOOP
                    closed := closed || %schema%.anarchon_record_v1(dead[n]);
                    worn := worn || run.job;
                END LOOP;
            END IF;
            CASE
            WHEN verdict = 'extend' THEN
                IF v.n = ANY (extended) THEN
                    UPDATE %schema%.anarchon_run r
                    SET end_ms = now_ms + (v.wish->>7)::bigint, lease_ms = (v.wish->>7)::bigint,
                        beat = r.beat + 1
                    WHERE r.namespace = space AND r.job = run.job AND r.slot_ms = run.slot_ms
                        AND r.manual = run.manual
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
            WHEN verdict = 'done' THEN
                run := %schema%.anarchon_done_v1(run, token, now_ms);
                worn := worn || run.job;
                answers[v.n] := %schema%.anarchon_closed_v1(run, token);
            WHEN verdict = 'dead' THEN
                run := %schema%.anarchon_bury_v1(run, token, now_ms);
                worn := worn || run.job;
                answers[v.n] := %schema%.anarchon_closed_v1(run, token);
            WHEN verdict = 'lapsed' THEN
                run := %schema%.anarchon_close_v1(run, token, 'lost', 'too old', NULL, now_ms);
                worn := worn || run.job;
                answers[v.n] := %schema%.anarchon_closed_v1(run, token);
            ELSE  -- newer, paused, overlap
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
            END CASE;
        END LOOP;

        IF is_locked THEN
            IF runs <> '{}' THEN
                PERFORM %schema%.anarchon_insert_v1(runs, lines);
            END IF;
            EXIT WHEN later = '{}' OR wins <= 0;
            todo := later;
        ELSE
            EXIT WHEN chosen = '{}';
            todo := chosen;
            IF is_first THEN
                PERFORM %schema%.anarchon_lock_v1(space, jobs, new_jobs);
            ELSE
                todo := ARRAY(
                    SELECT c.n FROM unnest(chosen, jobs) AS c (n, job)
                    WHERE c.job = ANY (ARRAY(
                        SELECT j.job FROM %schema%.anarchon_job j
                        WHERE j.namespace = space AND j.job = ANY (jobs)
                        FOR NO KEY UPDATE SKIP LOCKED
                    )) ORDER BY c.n
                );
            END IF;
            IF extended <> '{}' THEN
                PERFORM FROM (
                    SELECT items->(e.n::integer - 1) AS wish FROM unnest(extended) AS e (n)
                    ORDER BY (items->(e.n::integer - 1)->>0) COLLATE "C"
                ) AS e
                CROSS JOIN LATERAL (
                    SELECT FROM %schema%.anarchon_run r
                    WHERE r.namespace = space AND r.job = e.wish->>0
                        AND r.slot_ms = (e.wish->>1)::bigint AND r.manual = e.wish->>12
                    FOR NO KEY UPDATE
                ) AS r;
            END IF;
            IF foreign_runs <> '{}' THEN
                -- FOR UPDATE, because a user's transaction that holds the row FOR KEY SHARE
                -- must hold off whatever ends the attempt, not only what changes its key.
                foreign_runs := ARRAY(
                    SELECT e.n FROM unnest(foreign_runs) AS e (n)
                    CROSS JOIN LATERAL (
                        SELECT FROM %schema%.anarchon_run r
                        WHERE r.namespace = space
                            AND r.job = items->(e.n::integer - 1)->>0
                            AND r.slot_ms = (items->(e.n::integer - 1)->>1)::bigint
                            AND r.manual = items->(e.n::integer - 1)->>12
                        FOR UPDATE SKIP LOCKED
                    ) AS r
                    WHERE e.n = ANY (todo)
                );
            END IF;
            is_first := false;
            IF todo = '{}' THEN  -- others decide about these just now
                EXIT WHEN later = '{}';
                todo := later;
                CONTINUE;
            END IF;
        END IF;
        is_locked := NOT is_locked;
    END LOOP;
    IF worn <> '{}' OR worn_skips <> '{}' THEN
        PERFORM %schema%.anarchon_trim_all_v1(space, worn, worn_skips, now_ms);
    END IF;
    IF %schema%.anarchon_any_order_v1(space) THEN
        opened := %schema%.anarchon_beside_v1(space, items, opened, now_ms);
    END IF;
    RETURN json_build_array(
        now_ms, array_to_json(answers),
        CASE WHEN opened IS NULL THEN '[]' ELSE %schema%.anarchon_flat_v1(opened) END,
        array_to_json(closed)
    );
END
$body$;
