"""What instances say of themselves on PostgreSQL costs no answer; and of a slot one tells."""

from __future__ import annotations

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from anarchon._testing_contract.bench import ANY_JOB, Bench
from anarchon._values import Held, Limits, Presence, Present, Won
from anarchon.backends._wire import Call
from tests.stores.postgres_clock import SCHEMA, ByHand

DAY_MS = 24 * 3_600_000
CROWD = 8
INSTANCE, ALERT = (f'"{SCHEMA}".anarchon_{table}' for table in ("instance", "alert"))


@pytest.fixture
def bench(database, clock):
    store = ByHand(database.url, clock=clock, namespace=f"instances {uuid.uuid4()}")
    bench = Bench(store, clock, 30_000)
    bench.run_through(-5)  # a job that is new would have to be waited for
    yield bench
    store.close()


@pytest.fixture
def elsewhere(database, clock):
    """Another namespace beside it."""
    store = ByHand(database.url, clock=clock, namespace=f"elsewhere {uuid.uuid4()}")
    yield Bench(store, clock, 30_000)
    store.close()


@pytest.fixture
def strict(database, clock, bench):
    """The same store, from connections whose transactions see what was there at first."""
    database.allowed += ("could not serialize access",)
    options = r"options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    url = f"{database.url}{'&' if '?' in database.url else '?'}{options}"
    store = ByHand(url, clock=clock, namespace=bench.backend.namespace)
    store.open(bench.limits)
    yield Bench(store, clock, 30_000)
    store.close()


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


# --- of a slot that nobody has finished, one tells ---


def tells(bench, by, slot=0.0, *, job=ANY_JOB):
    return bench.any.alert([bench.key(slot, job)], owner=bench.owner(by)).answers[0]


def alert(bench, by, slot=0.0, *, job=ANY_JOB):
    """Return the call of somebody who asks whether to tell."""
    return Call("alert", (by,), ((job, bench.key(slot).slot_ms),))


def crowd(database, clock, bench, ask):
    """Let many ask at the same moment, each on a connection of its own."""
    gate = Barrier(CROWD)

    def asked(number):
        store = ByHand(database.url, clock=clock, namespace=bench.backend.namespace)
        store.open(bench.limits)
        gate.wait(20)
        try:
            return ask(store, number)
        finally:
            store.close()

    with ThreadPoolExecutor(CROWD) as pool:
        return list(pool.map(asked, range(CROWD)))


def test_of_many_who_ask_at_once_one_tells(database, clock, bench):
    """Of the first slot, whose job has no row, and of each after it."""
    for turn in range(10):
        key = bench.key(turn)
        answers = crowd(
            database,
            clock,
            bench,
            lambda store, number: store.alert([key], owner=bench.owner(f"{number}")).answers,  # noqa: B023 - called here
        )
        assert sorted(answers) == [(False,)] * (CROWD - 1) + [(True,)]


def test_of_many_jobs_in_any_order_one_tells_of_each(database, clock, bench):
    """And nobody waits in a circle: see `database_on`."""

    def ask(store, number):
        dice, counted = random.Random(number), []
        for turn in range(10):
            keys = [bench.key(turn, f"job {job}") for job in range(20)]
            dice.shuffle(keys)
            answers = store.alert(keys, owner=bench.owner(f"{number}")).answers
            counted += [key for key, answer in zip(keys, answers, strict=True) if answer]
        return counted

    told = [key for keys in crowd(database, clock, bench, ask) for key in keys]
    assert len(told) == len(set(told))
    last = [key for key in told if key.slot_ms == bench.key(9).slot_ms]
    assert len(last) == 20


@pytest.mark.parametrize("before", [False, True], ids=["no-row", "a-row"])
@pytest.mark.parametrize(("slot", "ends"), [(0, "COMMIT"), (1, "COMMIT"), (0, "ROLLBACK")])
def test_who_asks_while_another_one_is_told_waits(bench, under_way, meanwhile, before, slot, ends):
    if before:
        assert tells(bench, "x", -3)
    with under_way(alert(bench, "rival", slot), ends):
        answer = meanwhile(tells, bench, "a")
    assert answer() == (ends == "ROLLBACK")
    assert tells(bench, "rival", slot) == (ends == "COMMIT")


def test_who_asks_of_a_newer_slot_meanwhile_tells_of_that(bench, under_way, meanwhile):
    with under_way(alert(bench, "rival")):
        answer = meanwhile(tells, bench, "a", 1)
    assert answer()
    assert not tells(bench, "rival")


def test_a_copy_of_a_question_is_answered_alike(bench, under_way, meanwhile):
    with under_way(alert(bench, "a")):
        answer = meanwhile(tells, bench, "a")
    assert answer()


def test_strict_transactions_ask_again(bench, strict, under_way, meanwhile):
    for slot in (0, 1):  # without a row, and with one
        with under_way(alert(bench, "rival", slot)):
            answer = meanwhile(tells, strict, "a", slot)
        assert not answer()


def test_who_would_not_tell_waits_for_nobody(database, bench, under_way):
    """Nor does anybody wait for another job, or for another namespace."""
    bench.run_through(2)
    tells(bench, "x", 0)
    tells(bench, "x", 5, job="other")
    bench.backend._limits = Limits(quick=0.5, call=0.5)
    place = f"SELECT xmin, xmax FROM {ALERT} WHERE namespace = %s AND job = 'job'"
    before = database.ask(place, [bench.backend.namespace])
    assert (tells(bench, "x"), tells(bench, "a"), tells(bench, "a", -1)) == (True, False, False)
    assert database.ask(place, [bench.backend.namespace]) == before
    with under_way(alert(bench, "rival", 1)):
        assert not tells(bench, "a", 0)
        assert not tells(bench, "a", 2)  # it is finished
        assert tells(bench, "a", 6, job="other")


def test_jobs_are_asked_about_in_the_order_of_their_names(database, bench, under_way, meanwhile):
    jobs = ("é", "b", "B")
    with under_way(alert(bench, "rival", job="B")):
        keys = [bench.key(0, job) for job in jobs]
        answers = meanwhile(bench.any.alert, keys, owner=bench.owner("a"))
        with under_way(alert(bench, "rival", job="b")):
            pass
    assert answers().answers == (True, False, False)


def test_the_same_job_twice_is_decided_in_turn(bench):
    """There may be one of each in a question, so it is the caller's fault."""
    keys = [bench.key(slot) for slot in (1, 0, 1, 2)]
    assert bench.any.alert(keys, owner=bench.owner("a")).answers == (True, False, True, True)


def test_its_own_slot_decides_and_no_other_run(bench, elsewhere):
    """Neither those beside it, nor a manual run at the same moment."""
    bench.run_through(0, job="other")
    bench.run_through(-1)
    elsewhere.run_through(0)
    lease = bench.manual("by hand", 0)
    result = bench.result(0, key=lease.key, reason="manual")
    bench.backend.finish([result], owner=bench.owner("a"))
    assert tells(bench, "a")
    assert tells(elsewhere, "b", 1)
    assert not tells(bench, "b")


@pytest.mark.parametrize("slot_ms", [2**63 - 1, 253_402_300_800_000])
def test_a_slot_that_no_calendar_has_was_told_of_by_nobody(database, bench, slot_ms):
    assert tells(bench, "x")
    assert tells(bench, "x", job="other")
    database.ask(
        f"UPDATE {ALERT} SET slot_ms = %s WHERE namespace = %s AND job = 'job'",
        [slot_ms, bench.backend.namespace],
    )
    assert tells(bench, "a")
    assert not tells(bench, "b")
    assert not tells(bench, "b", job="other")
