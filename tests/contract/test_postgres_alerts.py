"""Of a slot that nobody has finished one instance tells, however many ask PostgreSQL at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from anarchon._testing_contract.bench import ANY_JOB
from anarchon._values import Limits
from anarchon.backends._wire import Call
from tests.stores.postgres_clock import SCHEMA, ByHand

CROWD = 8
ALERT = f'"{SCHEMA}".anarchon_alert'


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
