"""What type checkers see of the tools for tests, and of the application for probes.

This file is checked, not run. Each ignored error must be one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, assert_type

from anarchon import MemoryBackend, Run, Scheduler
from anarchon.contrib.wsgi import health_app, with_health
from anarchon.testing import (
    ManualClock,
    ManualContext,
    assert_due,
    assert_due_between,
    assert_ran_once,
    make_context,
    manual_time,
    run_job,
)

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from anarchon import Context
    from anarchon.contrib.pytest import ManualTime

NINE = datetime(2026, 10, 10, 9, tzinfo=UTC)


def contexts() -> None:
    ctx = make_context("report", NINE, attempt=2, reason="takeover", data={"a": 1}, checkpoint=[1])
    assert_type(ctx, ManualContext)
    handler(ctx)
    ctx.abort("timeout")
    make_context(slot=1_767_225_600_000, previous_slot="2026-01-01T00:00Z", fence=3)
    make_context(previous_slot=None, abort_after="5s", abort_reason="lost", instance_id="web")
    make_context(reason="again")  # type: ignore[arg-type]
    make_context(abort_reason="tired")  # type: ignore[arg-type]
    make_context(slot=1.5)  # type: ignore[arg-type]
    ctx.abort("tired")  # type: ignore[arg-type]


def handler(ctx: Context) -> None:
    assert_type(ctx.previous_slot, int | None)


def runs(scheduler: Scheduler) -> None:
    assert_type(run_job(scheduler, "report"), Run)
    run_job(scheduler, "report", NINE, context=make_context())
    run_job(scheduler, "report", context=None)
    run_job(scheduler, "report", data=1)  # type: ignore[call-arg]
    run_job("report")  # type: ignore[call-arg, arg-type]
    with manual_time(scheduler, start=NINE, catch_up=True) as clock:
        assert_type(clock, ManualClock)


def assertions(scheduler: Scheduler) -> None:
    assert_due(scheduler, "report", NINE)
    assert_type(
        assert_due_between(scheduler, "report", NINE, "2026-10-11T09:00Z", times=24),
        list[datetime],
    )
    assert_type(assert_ran_once(scheduler, "report", 1_767_225_600_000), Run)


def a_test(manual_time: ManualTime, manual_clock: ManualClock) -> None:
    scheduler = Scheduler(MemoryBackend())
    assert_type(manual_time(scheduler, start=NINE, only="report"), ManualClock)
    manual_time(scheduler, only=["report", "sync"])
    manual_time(scheduler, only=3)  # type: ignore[arg-type]
    manual_clock.advance("1h")


def probes(app: WSGIApplication, scheduler: Scheduler) -> WSGIApplication:
    health_app("app:scheduler")  # type: ignore[arg-type]
    with_health(app, health_app(scheduler))  # type: ignore[arg-type]
    return with_health(health_app(scheduler, details=False), scheduler, path="/healthz")
