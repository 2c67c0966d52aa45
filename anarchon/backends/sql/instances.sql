-- What instances say of themselves, and which of them tells of a slot that nobody has finished.
--
-- What an instance says is kept in passing, by `keep`, behind an operation and in its statement.
-- The row of the asker is the last thing that any statement waits for: whoever has one waits for
-- nothing more, so these rows are in no circle, whatever was locked before.

-- Keep what an instance says of itself. Said is: token, expected, state, about; what it leaves out
-- of `about` stays as it was told.
CREATE OR REPLACE FUNCTION %schema%.anarchon_note_v1(space text, said jsonb) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO %schema%.anarchon_instance AS i
        (namespace, token, seen_ms, expected_ms, state, about)
    VALUES (
        space, said->>0, %schema%.anarchon_now_v1(), (said->>1)::bigint, said->>2,
        coalesce(said->>3, '')
    )
    ON CONFLICT (namespace, token) DO UPDATE SET
        seen_ms = excluded.seen_ms, expected_ms = excluded.expected_ms, state = excluded.state,
        about = coalesce(said->>3, i.about);
END
$body$;

-- Keep it behind another operation, and return that one's answer: as an argument, it is there
-- before anything here begins.
--
-- It must not cost the answer. Where the operation has written nothing, nobody waits for the disk.
-- The row is the asker's own, so mostly it is free, or held by another call of the asker's that
-- ends in a moment. Should somebody else hold it, the time that is left is halved, and then the
-- answer goes back, and what was said is not kept.
CREATE OR REPLACE FUNCTION %schema%.anarchon_keep_v1(answer json, space text, said jsonb)
RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    patience CONSTANT interval := current_setting('lock_timeout');
    left_ms bigint;
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    PERFORM FROM %schema%.anarchon_instance i
    WHERE i.namespace = space AND i.token = said->>0
    FOR NO KEY UPDATE SKIP LOCKED;
    IF found THEN
        PERFORM %schema%.anarchon_note_v1(space, said);
        RETURN answer;
    END IF;
    left_ms := 1000 * date_part(
        'epoch', patience - (clock_timestamp() - statement_timestamp())
    );
    BEGIN  -- which costs more than all of the above
        PERFORM set_config(
            'lock_timeout', greatest(1, least(1000, left_ms / 2))::text, true
        );
        PERFORM %schema%.anarchon_note_v1(space, said);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    RETURN answer;
END
$body$;

-- Keep it, or forget the asker where it says nothing; and forget who is long gone. A row of
-- another one that somebody has is left for the next time.
CREATE OR REPLACE FUNCTION %schema%.anarchon_present_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    now_ms CONSTANT bigint := %schema%.anarchon_now_v1();
    gone_ms CONSTANT bigint := now_ms - 86400000;
BEGIN
    DELETE FROM %schema%.anarchon_instance i
    WHERE i.namespace = space AND i.token = head->>0
        AND (head->>1 IS NULL OR i.expected_ms < gone_ms);
    IF head->>1 IS NOT NULL THEN
        PERFORM %schema%.anarchon_note_v1(space, head);
    END IF;
    DELETE FROM %schema%.anarchon_instance i
    WHERE i.ctid = ANY (ARRAY(
        SELECT x.ctid FROM %schema%.anarchon_instance x
        WHERE x.namespace = space AND x.expected_ms < gone_ms AND x.token <> head->>0
        FOR UPDATE SKIP LOCKED
    ));
    RETURN json_build_array(now_ms, '[]'::json);
END
$body$;

-- The instances that the store has heard from, the last thousand of them: token, seen, expected,
-- state, about. Times that nobody can have written are those of none.
CREATE OR REPLACE FUNCTION %schema%.anarchon_instances_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql STABLE %settings% AS $body$
DECLARE
    top CONSTANT bigint := 18014398509481984;
BEGIN
    RETURN json_build_array(%schema%.anarchon_now_v1(), coalesce((
        SELECT json_agg(
            json_build_array(x.token, x.seen_ms, x.expected_ms, x.state, x.about)
            ORDER BY x.seen_ms DESC, x.token
        ) FROM (
            SELECT i.* FROM %schema%.anarchon_instance i
            WHERE i.namespace = space AND i.seen_ms BETWEEN -top AND top
                AND i.expected_ms BETWEEN -top AND top
            ORDER BY i.seen_ms DESC, i.token LIMIT 1000
        ) AS x
    ), '[]'));
END
$body$;

-- Who tells that nobody has finished these slots; an item: job, slot. Of each job the newest slot
-- that was told of is kept, and whose it is. Whoever would not tell waits for nobody and writes
-- nothing; the rest go by the names of the jobs, as everywhere, and the insert decides.
CREATE OR REPLACE FUNCTION %schema%.anarchon_alert_v1(
    space text, head jsonb, items jsonb
) RETURNS json LANGUAGE plpgsql %settings% AS $body$
DECLARE
    asker CONSTANT text := head->>0;
    top CONSTANT bigint := 253402300799999;  -- no slot is later: a row that says so says nothing
    v record;
    told record;
    answers json[] := '{}';
BEGIN
    FOR v IN
        SELECT t.n, t.item->>0 AS job, (t.item->>1)::bigint AS slot_ms
        FROM jsonb_array_elements(items) WITH ORDINALITY AS t (item, n)
        ORDER BY (t.item->>0) COLLATE "C", t.n
    LOOP
        answers[v.n] := '["no"]';
        CONTINUE WHEN EXISTS (
            SELECT FROM %schema%.anarchon_run r
            WHERE r.namespace = space AND r.job = v.job AND r.slot_ms = v.slot_ms
                AND r.manual = '' AND r.state = 'closed'
                AND coalesce(r.status, '') NOT IN ('missed', 'lost')
                AND NOT coalesce(r.status = 'skipped' AND r.detail = 'overlap', false)
        );
        SELECT a.slot_ms, a.token INTO told FROM %schema%.anarchon_alert a
        WHERE a.namespace = space AND a.job = v.job
            AND a.slot_ms BETWEEN v.slot_ms AND top;
        IF found THEN
            IF told.slot_ms = v.slot_ms AND told.token = asker THEN
                answers[v.n] := '["yes"]';
            END IF;
            CONTINUE;
        END IF;
        INSERT INTO %schema%.anarchon_alert AS a (namespace, job, slot_ms, token)
        VALUES (space, v.job, v.slot_ms, asker)
        ON CONFLICT (namespace, job) DO UPDATE
        SET slot_ms = excluded.slot_ms, token = excluded.token
        WHERE a.slot_ms < excluded.slot_ms OR a.slot_ms > top
            OR a.slot_ms = excluded.slot_ms AND a.token = excluded.token;
        IF found THEN
            answers[v.n] := '["yes"]';
        END IF;
    END LOOP;
    RETURN json_build_array(%schema%.anarchon_now_v1(), array_to_json(answers));
END
$body$;
