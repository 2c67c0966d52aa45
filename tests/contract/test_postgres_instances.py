"""What instances say of themselves on PostgreSQL goes along with calls, and costs no answer."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest

from anarchon._testing_contract.bench import ANY_JOB
from anarchon._values import Held, Limits, Presence, Present, Won
from anarchon.backends._wire import Call
from tests.stores.postgres_clock import SCHEMA

DAY_MS = 24 * 3_600_000
INSTANCE = f'"{SCHEMA}".anarchon_instance'


def speaker(bench, name="a", about="{}", *, state="{}", days=0.0):
    expected_ms = bench.now_ms() + bench.lease_ms + int(days * DAY_MS)
    return bench.owner(name)._replace(presence=Presence(expected_ms, state, about))


def claimed(bench, owner, *, job=ANY_JOB):
    claims = bench.backend.claim([bench.wish(0, job=job)], owner=owner, wins=1, pace=bench.pace())
    return claims.answers[0]


def shown(bench):
    return {one.token: one for one in bench.backend.instances().instances}


def saying(owner):
    """Return the call of an instance that says something of itself."""
    return Call("present", (owner.token, *owner.presence))


@contextmanager
def held(database, bench, token, how="UPDATE"):
    """Lock the row of an instance for the block."""
    with database.connect() as connection, connection.transaction():
        found = connection.execute(
            f"SELECT FROM {INSTANCE} WHERE namespace = %s AND token = %s FOR {how}",
            (bench.backend.namespace, token),
        ).fetchall()
        assert len(found) == 1
        yield


# --- what is said goes along, and costs no answer ---


def test_a_claim_waits_for_another_call_of_its_own_instance(bench, under_way, meanwhile):
    """What both say is kept: of `about`, what was said last."""
    bench.backend.present(speaker(bench))
    with under_way(saying(speaker(bench, about=None, state='{"n":1}'))):
        answer = meanwhile(claimed, bench, speaker(bench, about='{"pid":2}', state='{"n":2}'))
    assert isinstance(answer(), Won)
    assert shown(bench)["a"][3:] == ('{"n":2}', '{"pid":2}')


def test_the_first_words_of_two_calls_at_once_are_those_of_one_row(bench, under_way, meanwhile):
    with under_way(saying(speaker(bench, about='{"pid":1}'))):
        answer = meanwhile(claimed, bench, speaker(bench, about=None, state='{"n":2}'))
    assert isinstance(answer(), Won)
    assert shown(bench)["a"][3:] == ('{"n":2}', '{"pid":1}')


def test_a_row_that_somebody_else_has_costs_no_answer(database, bench):
    """A session that an administrator forgot, perhaps; what was said is lost then."""
    bench.backend.present(speaker(bench))
    bench.backend._limits = Limits(quick=2.0, call=2.0)
    with held(database, bench, "a"):
        begun = time.monotonic()
        assert isinstance(claimed(bench, speaker(bench, state='{"n":2}')), Won)
        assert time.monotonic() - begun < 1.8
        renewed = bench.any.renew(
            [bench.lease(0)], owner=speaker(bench, state='{"n":3}'), lease_ms=30_000
        )
        assert (renewed.lost, renewed.done) == ((), ())
        looked = bench.any.unfinished([ANY_JOB], owner=speaker(bench, state='{"n":4}'))
        assert len(looked.wrong) == 1
    assert shown(bench)["a"].state == "{}"
    assert isinstance(bench.claim(0), Won)  # the same one: it was written


@pytest.mark.parametrize(
    ("patience", "gone", "waits"), [(10_000, 0.0, 1.0), (400, 0.0, 0.2), (1100, 1.0, 0.05)]
)
def test_half_of_the_time_that_is_left_is_waited_at_most_a_second(
    database, bench, patience, gone, waits
):
    """And a connection that is used again is as it was."""
    bench.backend.present(speaker(bench))
    said = json.dumps(("a", 1, "{}", "{}"))
    with held(database, bench, "a"), database.connect() as connection:
        begun = time.monotonic()
        answer = connection.execute(
            f'SELECT "{SCHEMA}".anarchon_keep_v1(%s, %s, %s), clock_timestamp() '
            "FROM set_config('lock_timeout', %s, true), pg_sleep(%s)",
            ('["answer"]', bench.backend.namespace, said, f"{patience}", gone),
        ).fetchall()
        assert gone + 0.9 * waits <= time.monotonic() - begun < gone + waits + 0.25
        assert answer[0][0] == ["answer"]
        for setting, usual in (("lock_timeout", "0"), ("synchronous_commit", "on")):
            assert connection.execute(f"SHOW {setting}").fetchall() == [(usual,)]


def test_a_connection_is_as_it_was(database, bench):
    bench.backend.present(speaker(bench))
    said = json.dumps(("a", 1, "{}", "{}"))
    with database.connect() as connection:
        for token in ("a", "new"):
            connection.execute(
                f'SELECT "{SCHEMA}".anarchon_keep_v1(%s, %s, %s) '
                "FROM set_config('lock_timeout', '1000', true)",
                ('["answer"]', bench.backend.namespace, said.replace("a", token, 1)),
            )
            for setting, usual in (("lock_timeout", "0"), ("synchronous_commit", "on")):
                assert connection.execute(f"SHOW {setting}").fetchall() == [(usual,)]


def test_what_is_said_again_is_written_by_the_transaction_itself(database, bench):
    """One inside of it is for the rare cases; and the rows of others stay as they are."""

    def places():
        return database.ask(
            f"SELECT token, xmin::text, xmax::text FROM {INSTANCE} WHERE namespace = %s ORDER BY 1",
            [bench.backend.namespace],
        )

    for name in "ab":
        bench.backend.present(speaker(bench, name))
    _, other = places()
    assert isinstance(claimed(bench, speaker(bench)), Won)
    mine, still = places()
    ((run,),) = database.ask(
        f'SELECT xmin::text FROM "{SCHEMA}".anarchon_run WHERE namespace = %s AND slot_ms = %s',
        [bench.backend.namespace, bench.key(0).slot_ms],
    )
    assert mine[1] == run
    assert still == other


def test_rows_of_other_instances_are_waited_for_by_nobody(database, bench, elsewhere):
    elsewhere.backend.present(speaker(bench))
    bench.backend.present(speaker(bench, "b"))
    bench.backend._limits = Limits(quick=2.0, call=2.0)
    with held(database, bench, "b"), held(database, elsewhere, "a"):
        begun = time.monotonic()
        assert isinstance(claimed(bench, speaker(bench)), Won)
        bench.backend.present(speaker(bench, "c"))
        assert time.monotonic() - begun < 0.9  # half of the time would be a wait
    assert set(shown(bench)) == {"a", "b", "c"}


def test_what_is_said_is_kept_behind_what_is_asked(bench, rival, meanwhile):
    """Who waits for a job has nothing that another call of the instance needs, nor others of it."""
    bench.backend.present(speaker(bench))
    with rival(bench.wish(0)):
        answer = meanwhile(claimed, bench, speaker(bench, state='{"n":2}'))
        bench.backend._limits = Limits(quick=2.0, call=2.0)
        bench.backend.present(speaker(bench, state='{"n":1}'))
        assert shown(bench)["a"].state == '{"n":1}'
    assert isinstance(answer(), Held)
    assert shown(bench)["a"].state == '{"n":2}'


def test_nobody_waits_for_the_disk_who_has_only_something_to_say(database, bench):
    """An end of a run, a start and a renewal are safe before they are acknowledged."""
    database.ask(
        f"""
        CREATE TABLE "{SCHEMA}".seen (word text);
        CREATE FUNCTION "{SCHEMA}".see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO "{SCHEMA}".seen SELECT current_setting('synchronous_commit');
            RETURN NEW;
        END $$;
        CREATE TRIGGER see BEFORE INSERT ON {INSTANCE} FOR EACH ROW
        EXECUTE FUNCTION "{SCHEMA}".see();
        """
    )

    def seen():
        rows = database.ask(f'WITH s AS (DELETE FROM "{SCHEMA}".seen RETURNING word) TABLE s')
        return [word for (word,) in rows]

    try:
        assert isinstance(claimed(bench, speaker(bench)), Won)
        assert seen() == ["on"]
        bench.any.renew([bench.lease(0)], owner=speaker(bench), lease_ms=30_000)
        assert seen() == ["on"]
        assert isinstance(claimed(bench, speaker(bench, "b")), Held)
        assert seen() == ["off"]
        bench.any.unfinished([ANY_JOB], owner=speaker(bench, "b"))
        assert seen() == ["off"]
        bench.backend.present(speaker(bench))
        assert seen() == ["on"]
    finally:
        database.ask(f'DROP FUNCTION "{SCHEMA}".see CASCADE; DROP TABLE "{SCHEMA}".seen')


def test_strict_transactions_that_meet_are_repeated(bench, strict, under_way, meanwhile):
    bench.backend.present(speaker(bench))
    with under_way(saying(speaker(bench, about=None, state='{"n":1}'))):
        answer = meanwhile(claimed, strict, speaker(bench, about='{"pid":2}', state='{"n":2}'))
    assert isinstance(answer(), Won)
    assert shown(bench)["a"][3:] == ('{"n":2}', '{"pid":2}')
    assert [run.status for run in bench.history()] == ["running", "success"]


# --- who is gone is forgotten, and who is there is shown ---


def test_who_is_long_gone_but_has_its_row_just_now_is_forgotten_later(
    database, bench, elsewhere, under_way
):
    """Two that wake at once after a day say so, and neither waits for the other."""
    for gone in ("a", "b", "c"):
        bench.backend.present(speaker(bench, gone, days=-2))
    elsewhere.backend.present(speaker(bench, "d", days=-2))
    bench.backend._limits = Limits(quick=2.0, call=2.0)
    with held(database, bench, "c"), under_way(saying(speaker(bench, "b"))):
        bench.backend.present(speaker(bench, "a"))
    assert set(shown(bench)) == {"a", "b", "c"}
    bench.backend.present(speaker(bench, "a"))
    assert set(shown(bench)) == {"a", "b"}
    assert set(shown(elsewhere)) == {"d"}


@pytest.mark.parametrize(("passed", "left"), [(DAY_MS, {"a", "b"}), (DAY_MS + 1, {"b"})])
def test_a_day_is_counted_to_the_millisecond(bench, passed, left):
    bench.backend.present(speaker(bench))
    bench.clock.advance(bench.lease_ms + passed)
    bench.backend.present(speaker(bench, "b"))
    assert set(shown(bench)) == left
    bench.backend.present(speaker(bench, about=None))
    assert shown(bench)["a"].about == ("{}" if "a" in left else "")


def test_who_comes_back_after_a_day_was_forgotten(bench):
    """So there is nothing that it said before."""
    bench.backend.present(speaker(bench, days=-2))
    bench.backend.present(speaker(bench, about=None))
    assert shown(bench)["a"].about == ""


def test_the_last_thousand_are_shown(database, bench):
    database.ask(
        f"INSERT INTO {INSTANCE} SELECT %s, 'number ' || n, n, n, '{{}}', '' "
        "FROM generate_series(1, 1500) AS n",
        [bench.backend.namespace],
    )
    assert [one.seen_ms for one in bench.backend.instances().instances] == [*range(1500, 500, -1)]


@pytest.mark.parametrize("column", ["seen_ms", "expected_ms"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**54 + 1])
def test_times_that_nobody_wrote_hide_their_own_row_alone(database, bench, column, value):
    for name in "ab":
        bench.backend.present(speaker(bench, name))
    database.ask(
        f"UPDATE {INSTANCE} SET {column} = %s WHERE namespace = %s AND token = 'a'",
        [value, bench.backend.namespace],
    )
    assert set(shown(bench)) == {"b"}
    assert isinstance(claimed(bench, speaker(bench)), Won)
    assert set(shown(bench)) == {"a", "b"}


def test_any_text_is_kept_as_it_is(bench):
    text = '{"\\u0000":"␀0 ␀ é😀 \0 %s \\\\ \x7f"}'
    owner = speaker(bench, "t\0␀", text, state=text)
    for said in (lambda: bench.backend.present(owner), lambda: claimed(bench, owner)):
        said()
        now = bench.now_ms()
        (found,) = bench.backend.instances().instances
        assert found == Present("t\0␀", now, owner.presence.expected_ms, text, text)
