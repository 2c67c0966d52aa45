"""The engine with the real core: claims, runs, aborts and manual runs, on a manual clock."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from anarchon._messages import (
    Drained,
    Stopped,
)
from anarchon._testing_clock import ManualClock
from anarchon.backends.memory import MemoryBackend
from tests.threads.rig import Rig, attached, job, running


def test_a_due_slot_runs_once_with_its_context():
    seen = []
    with running(job("a", seen.append, data={"x": 1})) as rig:
        rig.clock.advance("11s")
        assert rig.names() == ["started", "success"]
        (ctx,) = seen
        assert ctx.slot == rig.events()[0][1].slot == 1767225610000
        assert (ctx.name, ctx.attempt, ctx.reason, ctx.manual) == ("a", 1, "scheduled", False)
        assert (ctx.data, ctx.instance_id) == ({"x": 1}, "a")
        assert ctx.previous_slot == ctx.slot - 10_000
        assert ctx.fence > 0


def test_two_instances_on_one_clock_share_the_slots():
    ran = []
    clock = ManualClock()
    store = attached(clock, MemoryBackend())
    rigs = [
        Rig(clock, store, job("a", lambda c: ran.append((c.slot, c.instance_id)), 1), name=name)
        for name in ("a", "b")
    ]
    clock.advance("30500ms")
    slots = [slot for slot, _ in ran]
    assert slots == [1767225600000 + 1000 * n for n in range(1, 31)]
    assert {who for _, who in ran} == {"a", "b"}
    for rig in rigs:
        assert rig.stop()
        assert isinstance(rig.told[-1], Stopped)


def test_a_handler_without_a_context_and_an_async_one():
    seen = []

    async def later(ctx):
        await asyncio.sleep(0)
        seen.append(ctx.name)

    plain = job("plain", lambda: seen.append("plain"), with_context=False)
    with running(plain, job("later", later)) as rig:
        rig.clock.advance("11s")
    assert sorted(seen) == ["later", "plain"]


def test_one_worker_does_for_one_run_at_a_time():
    names = set()
    with running(job("a", lambda ctx: names.add(threading.current_thread().name), 1)) as rig:
        rig.clock.advance("10s")
        assert rig.engine._loop._settings.token == "token-a"
    assert names == {"anarchon-worker-1"}


def test_around_is_entered_for_each_attempt():
    steps = []

    @contextlib.contextmanager
    def around(ctx):
        steps.append(f"enter {ctx.name}")
        yield
        steps.append("exit")

    with running(job("a", lambda ctx: steps.append("call")), around=around) as rig:
        rig.clock.advance("11s")
    assert steps == ["enter a", "call", "exit"]


def test_a_handler_that_raises_has_failed_and_the_next_slot_runs():
    def handler(ctx):
        raise SystemExit("a library said so")

    with running(job("a", handler)) as rig:
        rig.clock.advance("21s")
        assert rig.names() == ["started", "failure"] * 2
        run = rig.events("failure")[0][1]
        assert run.error == "SystemExit: a library said so"
        assert "in handler" in run.traceback


def test_a_lease_is_renewed_while_the_handler_waits_on_the_clock():
    with running(job("a", lambda ctx: ctx.signal.sleep(20), 60)) as rig:
        rig.clock.advance("90s")
        ((_, run),) = rig.events("success")
        assert run.duration_ms == 20_000
        assert run.attempt == 1


# --- timeouts and stuck handlers ---


def test_a_timeout_ends_the_record_and_not_the_thread():
    gate, ended = threading.Event(), []

    def handler(ctx):
        gate.wait(10)
        ended.append(ctx.signal.reason)

    with running(job("a", handler, timeout=3.0), workers=1) as rig:
        rig.clock.advance("14s")
        ((_, run),) = rig.events("failure")
        assert run.error == "TimeoutError: still running after 3 s"
        assert run.duration_ms == 3000
        gate.set()
        rig.clock.advance("1s")
        assert ended == ["timeout"]
        assert len(rig.events("failure", "success")) == 1


def test_a_stuck_handler_is_told_with_its_stack_and_its_worker_replaced():
    gate = threading.Event()

    def wait_for_ever(ctx):
        if ctx.slot == 1767225610000:
            gate.wait(10)

    with running(job("a", wait_for_ever, timeout=3.0), workers=1) as rig:
        rig.clock.advance("19s")
        (note,) = rig.notes("stuck")
        assert "in wait_for_ever" in note.detail
        assert "gate.wait(10)" in note.detail
        assert "_threads_handler" not in note.detail
        assert rig.engine.stats().stuck == 1
        assert rig.engine.stats().free_workers == 1
        rig.clock.advance("2s")
        assert rig.names() == ["started", "failure", "started", "success"]
        gate.set()
        rig.clock.advance("1s")
        assert rig.engine.stats().stuck == 0


# --- stop ---


def test_a_cooperative_handler_hands_over_to_another_instance_at_once():
    clock = ManualClock()
    store = attached(clock, MemoryBackend())
    work = job("a", lambda ctx: ctx.signal.sleep(20), 60)
    a, b = (Rig(clock, store, work, name=name) for name in "ab")
    clock.advance("61s")
    first, second = (a, b) if a.names() else (b, a)
    assert first.names() == ["started"]
    assert first.stop()
    assert first.names() == ["started", "interrupted"]
    assert first.events()[-1][1].error is None
    clock.advance("2s")
    assert second.names() == ["takeover", "started"]
    assert second.events()[-1][1].attempt == 2
    clock.advance("21s")
    assert second.names()[-1] == "success"
    assert second.stop()


def test_a_handler_that_returns_after_stop_has_succeeded():
    with running(job("a", lambda ctx: ctx.signal.wait(20))) as rig:
        rig.clock.advance("11s")
        assert rig.stop()
        assert rig.names() == ["started", "success"]
        assert rig.events()[-1][1].detail == "after stop"


def test_a_handler_that_goes_on_past_the_limit_is_left():
    gate = threading.Event()
    with running(job("a", lambda ctx: gate.wait(10))) as rig:
        rig.clock.advance("11s")
        began = rig.clock.mono()
        assert rig.stop(5.0)
        assert rig.clock.mono() - began == pytest.approx(5.0, abs=0.1)
        assert rig.names() == ["started"]
        assert len(rig.notes("left")) == 1
        assert rig.stopped
        gate.set()


def test_a_spared_run_is_not_waited_for_to_drain():
    with running(job("a", lambda ctx: stopping(ctx, rig))) as rig:
        seen = []

        def stopping(ctx, rig):
            lease = rig.engine.current_lease()
            rig.engine.stop(5.0, frozenset({lease}))
            ctx.signal.wait()
            seen.append(Drained() in rig.told)

        rig.clock.advance("11s")
        assert rig.engine.join(10)
        assert [type(told) for told in rig.told[-1:]] == [Stopped]
        assert Drained() in rig.told


# --- manual runs ---


def test_a_manual_run_has_a_thread_and_data_of_its_own():
    seen = []

    def handler(ctx):
        seen.append((threading.current_thread().name, ctx.data, ctx.reason, ctx.manual))

    with running(job("a", handler, 3600, data="job's")) as rig:
        rig.run_now("a", "m1")
        rig.run_now("a", "m2", "mine", has_data=True)
        rig.run_now("a", "m3", None, has_data=True)
        rig.clock.advance("1s")
        assert sorted(seen, key=str) == sorted(
            [(name, data, "manual", True) for name, data in zip(
                [f"anarchon-manual-{n}" for n in (1, 2, 3)], ["job's", "mine", None], strict=True
            )],
            key=str,
        )  # fmt: skip
        # The three threads end in any order.
        assert sorted((run.run_id, run.status) for run in rig.returned()) == [
            ("m1", "success"),
            ("m2", "success"),
            ("m3", "success"),
        ]
        assert not [t for t in threading.enumerate() if t.name.startswith("anarchon-manual")]


def test_a_manual_run_needs_no_free_worker():
    gate = threading.Event()
    with running(job("a", lambda ctx: ctx.manual or gate.wait(10)), workers=1) as rig:
        rig.clock.advance("11s")
        rig.run_now("a", "m1")
        rig.clock.advance("1s")
        assert [run.status for run in rig.returned()] == ["success"]
        gate.set()


def test_a_handler_finds_its_own_lease_and_nobody_else():
    leases = []

    def handler(ctx):
        leases.append(rig.engine.current_lease())
        helper = threading.Thread(target=lambda: leases.append(rig.engine.current_lease()))
        helper.start()
        helper.join()

    with running(job("a", handler)) as rig:
        assert rig.engine.current_lease() is None
        rig.clock.advance("11s")
        assert (leases[0].key.job, leases[0].attempt) == ("a", 1)
        assert leases[1] is None
        assert rig.engine.current_lease() is None


# --- jobs that come and go ---


def test_jobs_come_and_go_while_it_runs():
    ran = []
    with running() as rig:
        rig.clock.advance("15s")
        rig.engine.add(job("a", lambda ctx: ran.append(ctx.slot)))
        rig.clock.advance("10s")
        rig.engine.remove("a")
        rig.clock.advance("32s")
        rig.engine.add(job("a", lambda ctx: ran.append(-ctx.slot)))
        rig.engine.add(job("a", lambda ctx: ran.append("new"), 5))
        rig.clock.advance("6s")
    assert ran == [1767225620000, "new"]


def test_a_run_in_progress_survives_the_removal_of_its_job():
    with running(job("a", lambda ctx: ctx.signal.sleep(15), 60)) as rig:
        rig.clock.advance("61s")
        rig.engine.remove("a")
        rig.clock.advance("20s")
        assert rig.names() == ["started", "success"]


# --- what it shows ---


def test_stats_show_how_it_is_going():
    with running(job("a", lambda ctx: ctx.signal.sleep(5)), workers=3) as rig:
        before = rig.engine.stats()
        assert (before.running, before.free_workers, before.stuck) == (0, 3, 0)
        assert before.store_up
        assert before.last_contact == 1000.0
        rig.clock.advance("12s")
        stats = rig.engine.stats()
        assert (stats.running, stats.free_workers) == (1, 2)
        assert stats.last_contact > 1010
        assert abs(stats.clock_offset) < 0.002
        assert (stats.clock_far, stats.heartbeat_late) == (False, 0.0)


def test_a_store_whose_clock_is_far_off_is_told():
    clock, other = ManualClock(), ManualClock()
    store = attached(other, MemoryBackend())
    other.step_wall("-90s")
    rig = Rig(clock, store, job("a", lambda ctx: None, 60))
    clock.advance("1s")
    stats = rig.engine.stats()
    assert stats.clock_far
    assert stats.clock_offset == pytest.approx(-90, abs=1.1)
    assert rig.stop()
