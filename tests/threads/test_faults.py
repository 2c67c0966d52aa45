"""Nothing that fails ends the engine: the store, the core, the facade, a schedule, a thread."""

from __future__ import annotations

import itertools
import logging
import math
import threading

import pytest

from anarchon._log_lines import Line, write
from anarchon._messages import (
    StoreDown,
    StoreUp,
)
from anarchon._testing_clock import ManualClock
from anarchon._values import (
    Claims,
    Renewed,
)
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import BackendUnavailable
from anarchon.testing import FaultyBackend
from tests.threads.rig import Every, Rig, attached, job, running


class Once:
    """Counts calls, and raises at one of them."""

    def __init__(self, at):
        self.at = at
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == self.at:
            raise ZeroDivisionError(f"call {self.at}")


def story(*, faulty=None, on_action=None, schedule=None, before_handle=None):
    """Run two jobs for half a minute, one of them long; return the rig, stopped."""
    clock = ManualClock()
    store = attached(clock, faulty or MemoryBackend())
    told = []

    def tell(action):
        if isinstance(action, Line):
            write(action)
            return
        told.append(action)
        if on_action is not None:
            on_action()

    long, short = (
        job("long", lambda ctx: ctx.signal.sleep(8), 15),
        job("short", lambda ctx: None, 3),
    )
    if schedule is not None:
        short = short._replace(schedule=schedule)
    rig = Rig(clock, store, long, short, on_action=tell)
    rig.told = told
    if before_handle is not None:
        handle = rig.engine._loop._core.handle
        rig.engine._loop._core.handle = lambda *args: (before_handle(), handle(*args))[1]
    clock.advance("25s")
    rig.run_now("short", "manual")
    clock.advance("8s")
    assert rig.stop()
    assert rig.stopped
    return rig


def assert_it_went_on(rig):
    """No slot twice, and the later slots of both jobs have run."""
    done = [(run.job, run.slot) for _, run in rig.events("success") if not run.manual]
    assert len(done) == len(set(done))
    assert ("short", 1767225630000) in done
    assert ("long", 1767225615000) in done


# --- the store ---


@pytest.mark.parametrize("how", ["fail", "lose_reply", "answer"])
def test_a_fault_at_every_store_call(how, caplog):
    faulty = FaultyBackend(MemoryBackend())
    story(faulty=faulty)
    calls = sum(faulty.calls.values())
    assert calls > 30
    for at in range(3, calls):  # the first two are those of the opening
        faulty = FaultyBackend(MemoryBackend())
        if how == "answer":
            faulty.answer("no answer", at=at)
        else:
            getattr(faulty, how)(at=at, error=OSError("fault"))
        assert_it_went_on(story(faulty=faulty))
    assert caplog.records == []


@pytest.mark.parametrize(
    "lie", [None, True, "won", (), Claims((), (), (), 0), Claims((), (), (), None)], ids=str
)
def test_no_handler_runs_without_a_confirmed_claim(lie):
    ran = []
    clock = ManualClock()
    faulty = FaultyBackend(attached(clock, MemoryBackend()))
    faulty.answer(lie, "claim", times=math.inf)
    rig = Rig(clock, faulty, job("a", ran.append))
    clock.advance("30s")
    assert ran == []
    assert [type(told) for told in rig.told if isinstance(told, StoreDown | StoreUp)] == [StoreDown]
    faulty.heal()
    clock.advance("12s")
    # The first claim had won its slot: repeated exactly, it is answered so again.
    assert ran[0].slot == 1767225610000
    assert ran[-1].slot == 1767225640000
    assert {ctx.attempt for ctx in ran} == {1}
    assert rig.stop()


@pytest.mark.parametrize(
    "lie", [Renewed((), (), None), Renewed((), (), 10**400), Renewed((), (), -1), (), None], ids=str
)
def test_a_renewal_without_an_answer_is_none(lie):
    clock = ManualClock()
    faulty = FaultyBackend(attached(clock, MemoryBackend()))
    rig = Rig(clock, faulty, job("a", lambda ctx: ctx.signal.sleep(30), 60))
    clock.advance("62s")
    faulty.answer(lie, "renew", times=math.inf)
    clock.advance("8s")
    # The lease ran out by our own count, so the run was given up before anybody may have it.
    assert rig.names()[:2] == ["started", "interrupted"]
    assert any(isinstance(told, StoreDown) for told in rig.told)
    assert rig.stop()


def test_an_outage_is_told_once_when_it_begins_and_once_when_it_ends():
    clock = ManualClock()
    faulty = FaultyBackend(attached(clock, MemoryBackend()))
    rig = Rig(clock, faulty, job("a", lambda ctx: None))
    clock.advance("5s")
    faulty.fail(times=math.inf)
    clock.advance("60s")
    assert not rig.engine.stats().store_up
    assert rig.engine.stats().last_contact < 1005
    faulty.heal()
    clock.advance("12s")
    assert rig.engine.stats().store_up
    outage = [told for told in rig.told if isinstance(told, StoreDown | StoreUp)]
    assert [type(told) for told in outage] == [StoreDown, StoreUp]
    assert isinstance(outage[0].error, BackendUnavailable)
    assert outage[0].error.__traceback__ is None
    assert rig.names()[-2:] == ["started", "success"]
    assert rig.stop()


def test_renewals_do_not_wait_behind_a_claim_that_hangs():
    clock = ManualClock()
    faulty = FaultyBackend(attached(clock, MemoryBackend()))
    rig = Rig(clock, faulty, job("long", lambda ctx: ctx.signal.sleep(30), 60), job("b", print, 70))
    clock.advance("65s")
    hold = faulty.hold("claim")
    before = faulty.calls["renew"]
    clock.advance("20s")
    assert hold.reached.is_set()
    assert faulty.calls["renew"] >= before + 19
    hold.release()
    clock.advance("30s")
    assert "success" in rig.names()
    assert rig.stop()


# --- the core, the facade, the schedules ---


def test_an_error_at_every_step_of_the_core(caplog):
    counting = Once(0)
    story(before_handle=counting)
    for at in range(1, counting.calls - 5, 3):
        rig = story(before_handle=Once(at))
        assert_it_went_on(rig)
        (record,) = caplog.records
        assert record.message.startswith("an error in the scheduler's loop\nTraceback")
        assert record.message.endswith(f"ZeroDivisionError: call {at}")
        caplog.clear()


def test_an_error_of_the_facade_at_every_action(caplog):
    counting = Once(0)
    story(on_action=counting)
    assert counting.calls > 20
    for at in range(1, counting.calls + 1):
        assert_it_went_on(story(on_action=Once(at)))
        assert "ZeroDivisionError" in caplog.text
        caplog.clear()


def test_an_error_at_every_computation_of_a_schedule():
    class Fragile(Every):
        def __init__(self, once):
            super().__init__(3000)
            self.once = once

        def next_after_ms(self, t_ms):
            self.once()
            return super().next_after_ms(t_ms)

        def latest_ms(self, t_ms):
            self.once()
            return super().latest_ms(t_ms)

    counting = Once(0)
    story(schedule=Fragile(counting))
    for at in range(1, counting.calls + 1):
        rig = story(schedule=Fragile(Once(at)))
        done = [run.slot for _, run in rig.events("success") if run.job == "long"]
        assert 1767225615000 in done


def test_a_core_that_always_fails_is_asked_less_and_less(caplog):
    with running(job("a", lambda ctx: None)) as rig:
        rig.clock.advance("1s")
        core, calls = rig.engine._loop._core, []
        handle = core.handle

        def fail(message, now):
            calls.append(now.mono)
            raise ZeroDivisionError

        core.handle = fail
        rig.clock.advance("60s")
        assert 10 < len(calls) < 25
        pauses = [b - a for a, b in itertools.pairwise(calls)]
        assert pauses[0] < 0.2
        assert max(pauses) == pytest.approx(5.0, abs=0.01)
        core.handle = handle
        rig.clock.advance("15s")
        assert "success" in rig.names()
        assert "ZeroDivisionError" in caplog.text


def test_logging_that_fails_is_survived():
    class Bad(logging.Filter):
        def filter(self, record):
            raise SystemExit("no log")

    bad, logger = Bad(), logging.getLogger("anarchon")
    logger.addFilter(bad)
    try:
        assert_it_went_on(story(on_action=Once(7)))
        assert_it_went_on(story(before_handle=Once(7)))
    finally:
        logger.removeFilter(bad)


def test_a_core_that_never_stops_is_left(caplog):
    with running(job("a", lambda ctx: None)) as rig:
        rig.clock.advance("1s")
        rig.engine._loop._core.handle = lambda message, now: []
        assert rig.stop(2.0)
        assert rig.stopped
    assert "didn't stop in time" in caplog.text


# --- threads ---


def test_without_a_thread_for_the_handler_the_run_is_handed_over(monkeypatch, caplog):
    clock, ran = ManualClock(), []
    store = attached(clock, MemoryBackend())
    work = job("a", lambda ctx: ran.append(ctx.instance_id), 60)
    rigs = {name: Rig(clock, store, work, name=name) for name in "ab"}
    start, refused = threading.Thread.start, []

    def refuse(thread):
        if thread.name.startswith("anarchon-worker") and not refused:
            refused.append(1)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    clock.advance("70s")
    assert len(ran) == 1
    loser = next(rig for name, rig in rigs.items() if name != ran[0])
    winner = rigs[ran[0]]
    ((_, run),) = loser.events("interrupted")
    # It was told that it starts, but what counts is that its handler was never called.
    assert (run.started_at, run.detail) == (None, "handed over")
    assert run.error == loser.engine.stats().no_thread
    assert run.error == "no thread could be had: can't start new thread"
    assert winner.names()[-1] == "success"
    assert winner.events()[-1][1].attempt == 2
    assert caplog.text.count("no thread for a handler: can't start new thread") == 1
    for rig in rigs.values():
        assert rig.stop()


def test_a_frozen_process_gives_its_run_up_first():
    clock = ManualClock()
    store = attached(clock, MemoryBackend())
    rig = Rig(clock, store, job("a", lambda ctx: ctx.signal.sleep(30), 60))
    clock.advance("62s")
    assert rig.engine.stats().running == 1
    clock._mono += 20.0  # longer than the lease
    clock.advance(0)
    (note,) = rig.notes("late")
    assert note.detail.endswith(" s")
    assert float(note.detail.split()[0]) > 18
    assert rig.names()[-1] == "interrupted"
    assert rig.engine.stats().heartbeat_late == 0.0  # nothing runs any more
    assert rig.stop()


def test_a_heartbeat_is_late_once_until_one_is_in_time():
    clock = ManualClock()
    rig = Rig(
        clock, attached(clock, MemoryBackend()), job("a", lambda ctx: ctx.signal.sleep(30), 60)
    )
    clock.advance("62s")
    for _ in range(2):
        clock._mono += 2.5
        clock.advance(0)
        assert rig.engine.stats().heartbeat_late == pytest.approx(2.0, abs=0.6)
    assert len(rig.notes("late")) == 1
    clock.advance("3s")
    assert rig.engine.stats().heartbeat_late < 0.1
    clock._mono += 2.5
    clock.advance(0)
    assert len(rig.notes("late")) == 2
    clock.advance("3s")
    rig.engine._loop._on_action = lambda told: 1 / 0
    clock._mono += 2.5
    clock.advance("1s")
    rig.engine._loop._on_action = rig.hear
    clock.advance("30s")
    assert rig.names() == ["started", "success"]
    assert rig.stop()


def test_a_job_that_can_not_be_called_is_given_back(caplog):
    with running(job("a", None, 60)._replace(job=None)) as rig:
        rig.clock.advance("61s")
        assert rig.names()[:2] == ["started", "interrupted"]
        assert "no start of a" in caplog.text
