"""What type checkers see of the scheduler: options, listeners, answers and mistakes.

This file is checked, not run. Each ignored error must be one: mypy reports an ignore
that nothing needs.
"""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, assert_type

from anarchon import (
    Health,
    Instance,
    Job,
    MemoryBackend,
    Run,
    Scheduler,
    SqliteBackend,
    StoreEvent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from anarchon import (
        Context,
        Explanation,
    )


@contextmanager
def in_app(ctx: Context) -> Iterator[None]:
    yield


class Transaction:
    def __init__(self, ctx: Context) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...


def around_factory(ctx: Context) -> AbstractContextManager[object]:
    return in_app(ctx)


def made() -> Scheduler:
    """Every option, with the types that it may have."""
    Scheduler(MemoryBackend(), around=in_app)
    Scheduler(MemoryBackend(), around=Transaction, log=True)
    return Scheduler(
        SqliteBackend("jobs.db", namespace="shop"),
        lease="1m",
        heartbeat=timedelta(seconds=10),
        jitter=0,
        catch_up="1h30m",
        overlap="allow",
        on_crash="abandon",
        max_attempts=5,
        timeout=None,
        timezone="Europe/Athens",
        workers=4,
        data={"any": object()},
        around=around_factory,
        enabled=False,
        instance_id="web-1",
        log=logging.getLogger("mine"),
        stop_on_exit=False,
        exit_timeout=2.5,
        control="5s",
    )


def mistakes_in_options() -> None:
    Scheduler("jobs.db")  # type: ignore[arg-type]
    Scheduler(MemoryBackend(), 30)  # type: ignore[call-arg]
    Scheduler(MemoryBackend(), overlap="run")  # type: ignore[arg-type]
    Scheduler(MemoryBackend(), on_crash="retry")  # type: ignore[arg-type]
    Scheduler(MemoryBackend(), workers="ten")  # type: ignore[arg-type]
    Scheduler(MemoryBackend(), control=[5])  # type: ignore[arg-type]
    Scheduler(MemoryBackend(), leases=30)  # type: ignore[call-arg]
    Scheduler(MemoryBackend(), log="INFO")  # type: ignore[arg-type]


def on_run(run: Run) -> str:
    return run.job


def on_store(event: StoreEvent) -> None:
    assert_type(event.at, datetime)


def listeners(scheduler: Scheduler) -> None:
    """The event says what the listener gets."""
    assert_type(scheduler.on("success", on_run), Scheduler)
    scheduler.on("failure", on_run).on("store_down", on_store).every("a", 10, print)
    scheduler.on("lost", lambda run: print(run.traceback))
    scheduler.on("store_up", lambda event: print(event.since))
    assert_type(scheduler.off("success", on_run), bool)

    @scheduler.on("takeover")
    def taken(run: Run) -> int:
        return run.attempt

    @scheduler.on("store_down")
    def down(event: StoreEvent) -> None: ...

    @scheduler.on("overdue")
    def overdue(explanation: Explanation) -> None: ...

    assert_type(taken(RUN), int)
    down(StoreEvent(RUN.scheduled_at, "refused", RUN.scheduled_at))


def mistakes_in_listeners(scheduler: Scheduler) -> None:
    scheduler.on("succes", on_run)  # type: ignore[call-overload]
    scheduler.on("success", on_store)  # type: ignore[call-overload]
    scheduler.on("overdue", on_run)  # type: ignore[call-overload]
    scheduler.on("store_down", on_run)  # type: ignore[call-overload]
    scheduler.on("success", lambda: None)  # type: ignore[call-overload]
    scheduler.off("succes", on_run)  # type: ignore[arg-type]

    @scheduler.on("success")  # type: ignore[type-var]
    def wrong(event: StoreEvent) -> None: ...


def answers(scheduler: Scheduler) -> None:
    assert_type(scheduler.jobs, tuple[Job, ...])
    assert_type(scheduler.next_slots("a", 3), list[datetime])
    assert_type(scheduler.history("a", limit=3, status="failed"), list[Run])
    assert_type(scheduler.last_run("a", status="success"), Run | None)
    assert_type(scheduler.health(), Health)
    assert_type(scheduler.run_now("a", data=3), Run)
    assert_type(scheduler.submit("a"), str)
    assert_type(scheduler.wait("5s"), signal.Signals | None)
    assert_type(scheduler.install_signal_handlers([signal.SIGTERM], timeout="5s"), bool)
    scheduler.start()
    scheduler.start(retry=True)
    scheduler.stop(timeout=5)
    scheduler.stop(None)
    scheduler.pause("a", duration="1h")
    scheduler.pause()
    scheduler.resume()
    assert_type(scheduler.trigger("a"), str)
    assert_type(scheduler.trigger("a", data={"b": [1, None]}), str)
    assert_type(scheduler.backfill("a", 0, "2026-12-01T00:00:00Z"), list[str])
    assert_type(scheduler.backfill("a", RUN.scheduled_at, RUN.slot, limit=3), list[str])
    assert_type(scheduler.instances(), list[Instance])
    [one] = scheduler.instances()
    assert_type(one.state, Literal["running", "idle", "silent"])
    assert_type(one.jobs, tuple[str, ...])
    assert_type(one.next_due, datetime | None)
    assert_type(one.clock_offset, float | None)
    one.state = "idle"  # type: ignore[misc]
    assert_type(scheduler.explain("a", 0).backfills, tuple[Run, ...])
    with scheduler as entered:
        assert_type(entered, Scheduler)
    scheduler.start(True)  # type: ignore[call-arg]
    scheduler.trigger("a", {"b": 1})  # type: ignore[call-arg]
    scheduler.backfill("a", 0)  # type: ignore[call-arg]
    scheduler.backfill("a", 0, 1.5)  # type: ignore[arg-type]
    scheduler.backfill("a", 0, 1, 100)  # type: ignore[call-arg]
    scheduler.history(status="ok")  # type: ignore[arg-type]
    scheduler.state = "idle"  # type: ignore[misc]


RUN: Run = made().history()[0]
