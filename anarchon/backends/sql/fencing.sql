-- What is called in a user's own transaction, on a connection of the user's.

-- Hold an attempt until this transaction ends: no other one of its run starts before. With
-- `completes`, record its success in the transaction, too.
--
-- FOR KEY SHARE holds off what changes the key of the row, or takes it FOR UPDATE: whoever
-- takes a run over, buries it, or wants to know whether it was completed. It lets renewals
-- through, and many transactions may have it at once. A rollback to a savepoint lets go of it.
--
-- Answers: held; lost, when the attempt isn't the asker's any more; done, when it was
-- completed before; elsewhere, when this database doesn't know the job at all. A manual run
-- that isn't recorded yet is held by nobody else.
CREATE OR REPLACE FUNCTION %schema%.anarchon_hold_v1(
    space text, token text, name text, slot bigint, manual_id text, nth bigint, completes boolean
) RETURNS text LANGUAGE plpgsql %settings% AS $body$
DECLARE
    longest CONSTANT text := '10s';
    patience CONSTANT text := current_setting('lock_timeout');
    answer text := 'held';
    run %schema%.anarchon_run;
BEGIN
    -- A wait that the user has limited stays so; an unlimited one may last for a while.
    IF patience = '0' THEN
        PERFORM set_config('lock_timeout', longest, true);
    END IF;
    PERFORM FROM %schema%.anarchon_run r
    WHERE r.namespace = space AND r.job = name AND r.slot_ms = slot AND r.manual = manual_id
        AND r.attempt = nth AND r.owner = token AND r.state = 'running'
    FOR KEY SHARE;
    IF NOT found THEN
        SELECT r.* INTO run FROM %schema%.anarchon_run r
        WHERE r.namespace = space AND r.job = name AND r.slot_ms = slot AND r.manual = manual_id;
        IF run.attempt = nth AND run.owner = token AND run.status = 'success' THEN
            answer := 'done';
        ELSIF run.job IS NULL AND manual_id <> '' AND NOT completes THEN
            answer := 'held';  -- it isn't recorded yet, perhaps nothing of its job is
        ELSIF NOT EXISTS (
            SELECT FROM %schema%.anarchon_job j WHERE j.namespace = space AND j.job = name
        ) THEN
            answer := 'elsewhere';
        ELSE
            answer := 'lost';
        END IF;
    ELSIF completes THEN
        INSERT INTO %schema%.anarchon_completion (namespace, job, slot_ms, manual, attempt, done_ms)
        VALUES (space, name, slot, manual_id, nth, %schema%.anarchon_now_v1())
        ON CONFLICT DO NOTHING;
        IF NOT found THEN
            answer := 'done';
        END IF;
    END IF;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN answer;
END
$body$;

-- Fail, so that a transaction can't be committed any more: its effect is somebody else's.
CREATE OR REPLACE FUNCTION %schema%.anarchon_refuse_v1(why text) RETURNS void
LANGUAGE plpgsql AS $body$
BEGIN
    RAISE EXCEPTION 'anarchon: this transaction must not be committed (%)', why;
END
$body$;
