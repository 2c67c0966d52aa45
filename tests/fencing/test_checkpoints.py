"""`ctx.save` in handlers of a running scheduler, and what the next attempt finds."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from anarchon import ConfigurationError, MemoryBackend, NotRunning, Scheduler
from anarchon.testing import ClaimOnly, FaultyBackend
from tests.fencing.runs import just_now, running, stolen


def test_the_next_attempt_finds_what_was_saved(place):
    seen = []

    def work(ctx):
        seen.append((ctx.attempt, ctx.checkpoint))
        if ctx.attempt == 1:
            ctx.save({"page": 1})
            ctx.save({"page": 7, "name": "Ωmega \ud800 \x00"})
            stolen_back.append(ctx)
            ctx.signal.sleep(20)

    stolen_back = []
    first, second = (Scheduler(place.backend(), lease=60, heartbeat="1s") for _ in range(2))
    done = threading.Event()
    at = just_now()
    for scheduler in (first, second):
        scheduler.on("success", lambda _: done.set())
        scheduler.once("job", at, work)
    first.start()
    until = time.monotonic() + 20
    while not stolen_back and time.monotonic() < until:
        time.sleep(0.01)
    second.start()
    first.stop()
    assert done.wait(20)
    second.stop()
    assert seen == [(1, None), (2, {"page": 7, "name": "Ωmega \ud800 \x00"})]


def test_who_lost_its_run_saves_nothing(place):
    backend = place.backend()

    def work(ctx):
        stolen(backend, ctx)
        ctx.save("mine")

    with running(backend, work) as one:
        assert one.event == "lost"


def test_what_is_no_checkpoint_is_refused_with_the_job_and_the_value():
    def work(ctx):
        for value, words in (
            ({1, 2}, r"The checkpoint of job is no JSON: \{1, 2\} \(.*set"),
            (float("nan"), "of job is no JSON"),
            ("x" * 65_535, "has 65537 bytes as JSON, and at most 65536 can be kept"),
            ("é" * 40_000, "has 80002 bytes"),
        ):
            with pytest.raises(ConfigurationError, match=words):
                ctx.save(value)
        ctx.save("x" * 65_534)
        loop = []
        loop.append(loop)
        with pytest.raises(ConfigurationError, match="is no JSON"):
            ctx.save(loop)

    with running(MemoryBackend(), work) as one:
        assert one.events[0][1].error is None


def test_a_save_is_asked_again_once():
    backend = FaultyBackend(MemoryBackend())

    def work(ctx):
        backend.fail("save", at=1)
        ctx.save(1)
        backend.fail("save", at=1, times=2)
        ctx.save(2)

    with running(backend, work) as one:
        assert one.events[0][1].error.startswith("BackendUnavailable: ")
        assert backend.calls["save"] == 4


def test_a_manual_run_has_no_next_attempt_so_nothing_is_kept():
    backend = FaultyBackend(MemoryBackend())
    scheduler = Scheduler(backend, lease=60)
    scheduler.every("job", "1h", lambda ctx: ctx.save(1), catch_up=0)
    with scheduler:
        assert scheduler.run_now("job").status == "success"
    assert backend.calls["save"] == 0


def test_without_leases_nothing_is_continued_so_nothing_can_be_saved():
    at = just_now() + timedelta(seconds=2)  # what has passed is never caught up without leases
    with running(ClaimOnly(MemoryBackend()), lambda ctx: ctx.save(1), at) as one:
        event, run = one.events[0]
        assert event == "failure"
        assert "ctx.save() needs a store with leases" in run.error


def test_a_context_of_no_scheduler_has_no_store():
    from anarchon._clock import Clock
    from anarchon._messages import JobSpec, StartRun
    from anarchon._signal import Switch
    from anarchon._values import Lease, RunKey, Terms
    from anarchon.context import Context
    from anarchon.schedules import Every

    spec = JobSpec("job", Every(60), Terms(30_000, 10_000, 3, True, 0), 0.0, None)
    start = StartRun(Lease(RunKey("job", 0), 1), "scheduled", 1, None, spec)
    context = Context(start, "me", Switch(Clock()), None)
    with pytest.raises(NotRunning, match="of no running scheduler"):
        context.save(1)
