"""The reply of an operation is lost on its way: a repeat gives the first answer.

Nothing is done twice by that, and an unknown outcome starts nothing.
"""

from __future__ import annotations

import threading
import time

import pytest

from anarchon import BackendUnavailable, Scheduler
from anarchon._values import (
    Lease,
    Limits,
    Owner,
    Pace,
    Recorded,
    Released,
    Result,
    RunKey,
    SkipWish,
    Terms,
    Wish,
    Won,
)
from tests.processes.ledger import by_slot
from tests.servers.places import SINGLE

pytestmark = pytest.mark.parametrize("store", SINGLE, indirect=True)

ME = Owner("me", "my-instance")
TERMS = Terms(30_000, 10_000, 3, skip_overlap=True, catch_up_ms=0)
LIMITS = Limits(connect=5.0, quick=1.0, call=1.0)


class Asker:
    """What is asked of a backend, always of the same run."""

    def __init__(self, backend) -> None:
        self.backend = backend
        self.now_ms = backend.open(LIMITS).store_ms
        backend.prepare(["job"])
        self.key = RunKey("job", self.now_ms - 1000)
        self.manual = RunKey("job", self.now_ms, "call")
        self.order = RunKey("job", self.now_ms, "trigger-1")
        self.lease = Lease(self.key, 1)

    def claim(self):
        pace = Pace(time.monotonic(), self.now_ms)
        wish = Wish(self.key, 1, "scheduled", TERMS)
        return self.backend.claim([wish], owner=ME, wins=1, pace=pace).answers[0]

    def trigger(self):
        return self.backend.trigger([self.order], data='{"page": 7}')

    def take(self):
        pace = Pace(time.monotonic(), self.now_ms)
        wish = Wish(self.order, 1, "manual", TERMS._replace(budget=0, catch_up_ms=3_600_000))
        return self.backend.claim([wish], owner=ME, wins=1, pace=pace).answers[0]

    def renew(self):
        return self.backend.renew([self.lease], owner=ME, lease_ms=30_000).lost

    def finish(self):
        return self._ended(self.backend.finish, "success")

    def release(self):
        return self._ended(self.backend.release, "interrupted")

    def save(self):
        return self.backend.save(self.lease, owner=ME, value='{"page": 7}')

    def skip(self):
        wish = SkipWish(self.key._replace(slot_ms=self.now_ms - 500), self.now_ms, "no worker")
        return self.backend.skip([wish], owner=ME, pace=Pace(time.monotonic())).answers[0]

    def record_manual(self):
        result = Result(self.manual, 1, "running", "manual", self.now_ms, 0)
        return self.backend.record_manual([result], owner=ME, lease_ms=30_000).answers[0]

    def _ended(self, operation, status):
        result = Result(self.key, 1, status, "scheduled", self.now_ms, 5)
        return operation([result], owner=ME).answers[0]

    def history(self):
        """Return what is recorded, without the moments."""
        return [
            (run.run_id, run.attempt, run.status, run.detail)
            for run in self.backend.history(None, limit=100)
        ]


@pytest.fixture
def asker(backend):
    return Asker(backend)


def ask_twice(asker, proxy, operation):
    """Lose the first reply of an operation, and return the answer to its repeat."""
    ask = getattr(asker, operation)
    lost = proxy.swallow_reply()
    with pytest.raises(BackendUnavailable):
        ask()
    assert lost.is_set()
    proxy.passing()
    return ask()


def test_a_claim(asker, proxy):
    answer = ask_twice(asker, proxy, "claim")
    assert isinstance(answer, Won)
    assert answer.attempt == 1
    assert asker.claim().fence == answer.fence
    assert asker.history() == [(asker.key.run_id, 1, "running", None)]
    assert asker.finish() == Recorded(asker.lease, "success", None)


def test_a_renewal(asker, proxy):
    asker.claim()
    assert ask_twice(asker, proxy, "renew") == ()
    assert asker.finish() == Recorded(asker.lease, "success", None)


def test_a_finish(asker, proxy):
    asker.claim()
    assert ask_twice(asker, proxy, "finish") == Recorded(asker.lease, "success", None)
    assert asker.history() == [(asker.key.run_id, 1, "success", None)]


def test_a_release(asker, proxy):
    asker.claim()
    assert ask_twice(asker, proxy, "release") == Released(asker.lease)
    (run,) = asker.backend.unfinished(["job"], owner=ME).wrong
    assert (run.state, run.attempt) == ("waiting", 1)


def test_a_checkpoint(asker, proxy):
    asker.claim()
    assert ask_twice(asker, proxy, "save") is True


def test_a_skip(asker, proxy):
    answer = ask_twice(asker, proxy, "skip")
    assert (answer.status, answer.by) == ("missed", ME.token)
    assert answer.run is not None  # the one that wrote it tells of it, also by its repeat
    assert [line[2] for line in asker.history()] == ["missed"]


def test_a_manual_record(asker, proxy):
    answer = ask_twice(asker, proxy, "record_manual")
    assert answer == Recorded(Lease(asker.manual, 1), "running", None)
    assert asker.history() == [("call", 1, "running", None)]


def test_an_order(asker, proxy):
    assert ask_twice(asker, proxy, "trigger") is None
    (run,) = asker.backend.look(["job"], owner=ME).wrong
    assert (run.key, run.state, run.attempt) == (asker.order, "waiting", 0)
    assert asker.take().checkpoint == '{"page": 7}'


def test_a_claim_of_an_order(asker, proxy):
    """Also when the order itself comes once more, long after it was taken."""
    asker.trigger()
    answer = ask_twice(asker, proxy, "take")
    assert isinstance(answer, Won)
    assert (answer.attempt, answer.checkpoint) == (1, '{"page": 7}')
    asker.trigger()
    assert asker.take().fence == answer.fence
    assert asker.backend.look(["job"], owner=ME).wrong == ()
    assert asker.history() == [("trigger-1", 1, "running", None)]


def test_an_early_copy_that_comes_late_wins_nothing_else(asker):
    """The network delivers a claim again, long after its run was released."""
    asker.claim()
    asker.release()
    late = asker.claim()
    assert (type(late).__name__, late.attempt) == ("Waiting", 1)


def test_a_scheduler_whose_every_call_loses_a_reply_runs_each_slot_once(backend, proxy):
    """Whichever reply comes next is lost, again and again: of claims, renewals, finishes."""
    calls = []
    scheduler = Scheduler(backend, lease="6s", heartbeat="1s", catch_up=0)
    scheduler.every("tick", "1s", lambda ctx: calls.append((ctx.slot, ctx.attempt)))
    scheduler.every("long", "1h", lambda ctx: ctx.signal.wait(60), catch_up="1h")
    with scheduler:
        for _ in range(6):
            assert proxy.swallow_reply().wait(5)
            passes_again(proxy, calls)
        proxy.passing()
    slots = by_slot(scheduler.history("tick"))
    assert [(slot, 1) for slot in sorted(slots)] == calls
    told = [[(run.attempt, run.status) for run in slots[slot]] for slot in sorted(slots)]
    assert told == [[(1, "success")]] * len(calls)
    assert len(calls) >= 3


def passes_again(proxy, calls):
    """Wait until a slot was run although a reply was lost."""
    before = len(calls)
    gave_up = threading.Event()
    deadline = time.monotonic() + 10
    while len(calls) == before:
        assert time.monotonic() < deadline, proxy.counts
        gave_up.wait(0.05)
