"""FaultyBackend: what it lets go wrong, and what it counts."""

from __future__ import annotations

import math
import threading
from multiprocessing.pool import ThreadPool

import pytest

from anarchon._values import Held, Limits, Owner, Won
from anarchon.backends.base import ClaimBackend, LeaseBackend
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import BackendUnavailable, ConfigurationError
from anarchon.testing import ClaimOnly, FaultyBackend
from tests.stores.helpers import claim, now_ms

OWNER = Owner("a", "a")


@pytest.fixture
def faulty():
    backend = FaultyBackend(MemoryBackend())
    backend.open(Limits())
    return backend


def test_it_has_leases_when_the_other_one_has():
    assert isinstance(FaultyBackend(MemoryBackend()), LeaseBackend)
    claim_only = FaultyBackend(ClaimOnly(MemoryBackend()))
    assert isinstance(claim_only, ClaimBackend)
    assert not isinstance(claim_only, LeaseBackend)
    assert isinstance(FaultyBackend(FaultyBackend(MemoryBackend())), LeaseBackend)


def test_it_counts_the_calls_of_each_method(faulty):
    claim(faulty, "job", now_ms())
    faulty.look(["job"], owner=OWNER)
    faulty.look(["job"], owner=OWNER)
    assert faulty.calls == {"open": 1, "claim": 1, "look": 2}
    faulty.calls.clear()
    assert faulty.calls["look"] == 2


def test_a_call_fails_before_its_effect(faulty):
    faulty.fail("claim", at=2)
    slot_ms = now_ms()
    claim(faulty, "one", slot_ms)
    with pytest.raises(BackendUnavailable):
        claim(faulty, "two", slot_ms)
    assert faulty.history("two", limit=1) == []
    assert isinstance(claim(faulty, "two", slot_ms), Won)


def test_a_reply_is_lost_after_the_effect(faulty):
    faulty.lose_reply("claim", error=TimeoutError("late"))
    slot_ms = now_ms()
    with pytest.raises(TimeoutError, match="late"):
        claim(faulty, "job", slot_ms, by="a")
    assert isinstance(claim(faulty, "job", slot_ms, by="b"), Held)


def test_an_outage_lasts_until_it_is_healed(faulty):
    faulty.fail(times=math.inf)
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            faulty.look(["job"], owner=OWNER)
        with pytest.raises(BackendUnavailable):
            faulty.history(None, limit=1)
    faulty.heal()
    assert faulty.look(["job"], owner=OWNER).others == 0


def test_any_call_can_be_meant_and_some_in_a_row(faulty):
    faulty.fail(at=2, times=2)
    faulty.pause("job", duration_ms=1)
    with pytest.raises(BackendUnavailable):
        faulty.resume("job")
    with pytest.raises(BackendUnavailable):
        faulty.history("job", limit=1)
    faulty.history("job", limit=1)


def test_an_answer_of_the_wrong_type(faulty):
    faulty.answer(None, "claim")
    faulty.answer("yes", "look")
    slot_ms = now_ms()
    pace_claim = faulty.claim([], owner=OWNER, wins=0, pace=None)
    assert pace_claim is None
    assert faulty.look(["job"], owner=OWNER) == "yes"
    assert isinstance(claim(faulty, "job", slot_ms), Won)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_is_held_until_it_is_released(faulty, moment):
    hold = faulty.hold("claim", moment=moment)
    slot_ms, answers = now_ms(), []
    thread = threading.Thread(target=lambda: answers.append(claim(faulty, "job", slot_ms)))
    thread.start()
    assert hold.reached.wait(10)
    assert len(faulty.history("job", limit=9)) == (moment == "after")
    assert answers == []
    hold.release()
    thread.join(10)
    assert isinstance(answers[0], Won)


def test_a_held_call_can_fail_in_the_end(faulty):
    hold = faulty.hold("look", error=TimeoutError("black hole"))
    hold.release()
    with pytest.raises(TimeoutError):
        faulty.look(["job"], owner=OWNER)


def test_healing_lets_held_calls_go(faulty):
    hold = faulty.hold("look", times=math.inf)
    with ThreadPool(4) as pool:
        waiting = [pool.apply_async(lambda: faulty.look(["j"], owner=OWNER)) for _ in range(4)]
        assert hold.reached.wait(10)
        faulty.heal()
        assert [one.get(10).others for one in waiting] == [0] * 4


def test_each_fault_strikes_as_often_as_it_says_from_any_thread(faulty):
    faulty.fail("look", at=11, times=20)

    def look(_):
        try:
            faulty.look(["job"], owner=OWNER)
        except BackendUnavailable:
            return 1
        return 0

    with ThreadPool(8) as pool:
        assert sum(pool.map(look, range(100))) == 20
    assert faulty.calls["look"] == 100


def test_a_method_that_does_not_exist_is_refused(faulty):
    with pytest.raises(ConfigurationError, match="no method 'clam'"):
        faulty.fail("clam")


def test_it_says_what_it_is_around(faulty):
    assert repr(faulty) == "<FaultyBackend around <MemoryBackend namespace='anarchon'>>"
    assert faulty.namespace == "anarchon"
