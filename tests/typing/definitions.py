"""What type checkers see of the definitions: both forms, chains and mistakes.

This file is checked, not run. Each ignored error must be one: mypy reports an ignore
that nothing needs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, assert_type

from anarchon import decorators
from anarchon._jobs_definitions import Definitions
from anarchon.schedules import Cron, Every, Once, Schedule

if TYPE_CHECKING:
    from anarchon import Context
    from anarchon._jobs_handlers import Handler
    from anarchon.jobs import Job, JobOptions


class Host(Definitions):
    """Stands for the scheduler: what chains must keep is the class of the host."""

    def own(self) -> None:
        """Exist here only."""


def nothing() -> None: ...
def one(ctx: Context) -> int:
    return ctx.slot


def optional(ctx: Context | None = None, *, loud: bool = False) -> bool:
    return loud or ctx is None


async def async_nothing() -> None: ...
async def async_one(ctx: Context) -> str:
    return ctx.name


def two(number: int, text: str) -> str:
    return text * number


class Reports:
    def sync(self, ctx: Context) -> None: ...
    def digest(self) -> int:
        return 1

    @staticmethod
    def static(ctx: Context) -> None: ...
    @classmethod
    def of_class(cls) -> None: ...
    async def __call__(self, ctx: Context) -> None: ...


class Sunsets:
    def next_after(self, t: datetime) -> datetime | None:
        return t

    def latest(self, t: datetime) -> datetime | None:
        return t


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
RULE = "DTSTART:20260105T090000\nRRULE:FREQ=DAILY"


def chains(host: Host) -> None:
    """Every form with a handler returns the host, and chains."""
    assert_type(host.every("a", 10, nothing), Host)
    assert_type(host.cron("a", "0 8 * * *", one, timezone="Europe/Athens"), Host)
    assert_type(host.once("a", NOON, async_nothing), Host)
    assert_type(host.rrule("a", RULE, async_one, timezone="Asia/Tokyo"), Host)
    assert_type(host.schedule("a", Sunsets(), async_one), Host)
    assert_type(host.register(Reports(), prefix="eu."), Host)
    assert_type(host.remove("a"), bool)
    host.every("a", "10s", nothing).cron("b", "@daily", one).once("c", "2026-12-01", one).schedule(
        "d", Every(5), nothing
    ).register(Reports()).own()


def handlers(host: Host) -> None:
    """Whatever takes the context or nothing, sync or async, is a handler."""
    host.every("a", 0.5, lambda: None).every("b", timedelta(seconds=1), lambda ctx: ctx.signal)
    host.every("a", 10, handler=nothing).every("b", 10, handler=one)
    host.every("a", 10, optional).every("b", 10, Reports().sync).every("c", 10, Reports().digest)
    host.every("a", 10, Reports.static).every("b", 10, Reports.of_class).every("c", 10, Reports())
    host.every("a", 10, partial(two, 1, "x")).every("b", 10, print, pass_context=True)
    handler: Handler = one
    host.schedule("a", Cron("@daily", "Asia/Tokyo"), handler).schedule("b", Once(NOON), handler)


def options(host: Host) -> None:
    """Every option, with every type that it may have."""
    host.every(
        "a",
        10,
        nothing,
        overlap="allow",
        timeout="1m",
        max_attempts=5,
        catch_up=timedelta(hours=1),
        jitter=0,
        data={"any": object()},
        on_crash="abandon",
        expect_within=None,
        pass_context=False,
        replace=True,
        enabled=False,
        description="text",
        tags=["nightly"],
    )
    host.cron("b", "@daily", nothing, timezone=None, timeout=None, expect_within=None, tags=("a",))
    shared: JobOptions = {"timeout": 5, "overlap": "skip"}
    host.once("c", "2026-12-01T12:00:00Z", nothing, **shared)


async def decorated(host: Host, ctx: Context) -> None:
    """A decorator keeps the type of the function."""

    @host.every("a", "10s")
    def sync(ctx: Context) -> int:
        return ctx.attempt

    @host.cron("b", "@daily", timezone="Asia/Tokyo", timeout=5)
    async def digest() -> str:
        return ""

    @host.rrule("d", RULE)
    @host.once("c", NOON)
    @host.schedule("d", Sunsets(), tags=["x"])
    def both() -> None: ...

    assert_type(sync(ctx), int)
    assert_type(await digest(), str)
    both()
    host.every("a", 10)(nothing)()


class Declared:
    """The decorators of the package keep the type of a method."""

    @decorators.every("sync", "10s", timeout="1m")
    @decorators.cron("morning", "0 8 * * *", timezone="Asia/Tokyo")
    def sync(self, ctx: Context) -> int:
        return ctx.attempt

    @decorators.rrule("zeroth", RULE, timezone="Asia/Tokyo", catch_up=0)
    @decorators.once("first", NOON)
    async def first(self) -> str:
        return ""

    @decorators.schedule("dusk", Sunsets())
    @staticmethod
    def dusk(ctx: Context) -> float:
        return ctx.slot / 1000

    @decorators.every("beat", 5)
    @classmethod
    def beat(cls) -> bool:
        return True


@decorators.every("plain", 10)
def plain(ctx: Context) -> int:
    return ctx.slot


async def declared(ctx: Context) -> None:
    """Nothing has changed for who calls a decorated function."""
    assert_type(Declared().sync(ctx), int)
    assert_type(await Declared().first(), str)
    assert_type(Declared.dusk(ctx), float)
    assert_type(Declared.beat(), bool)
    assert_type(plain(ctx), int)


def asked(job: Job) -> None:
    """What a job is made of."""
    assert_type(job.timeout, float | None)
    assert_type(job.catch_up, float)
    assert_type(job.tags, tuple[str, ...])
    assert_type(job.schedule, Schedule)
    assert_type(job.to_dict(), dict[str, Any])
    assert_type(Every(10).next_after(NOON), datetime | None)
    assert_type(Every(10).next_after_ms(5), int)


def mistakes(host: Host) -> None:
    """Each of these is an error to type checkers, as it is at run time."""
    host.every("a", 10, nothing())  # type: ignore[call-overload, func-returns-value]
    host.every("a", 10, one)("x")  # type: ignore[operator]
    host.every("a", 10, None)  # type: ignore[call-overload]
    host.every("a", 10, async_nothing())  # type: ignore[call-overload]
    host.every("a", 10, two)  # type: ignore[arg-type]
    host.every("a", 10, Reports.sync)  # type: ignore[arg-type]
    host.every("a", None, nothing)  # type: ignore[call-overload]
    host.every("a", 10, nothing, overlap="queue")  # type: ignore[call-overload]
    host.every("a", 10, nothing, on_crash=True)  # type: ignore[call-overload]
    host.every("a", 10, nothing, catch_up=None)  # type: ignore[call-overload]
    host.every("a", 10, nothing, time_out=5)  # type: ignore[call-overload]
    host.every("a", 10, nothing, timezone="UTC")  # type: ignore[call-overload]
    host.every("a", 10, nothing, tags=5)  # type: ignore[call-overload]
    host.every(b"a", 10, nothing)  # type: ignore[call-overload]
    host.cron("a", 5, nothing)  # type: ignore[call-overload]
    host.cron("a", "@daily", nothing, "UTC")  # type: ignore[call-overload]
    host.once("a", timedelta(hours=1), nothing)  # type: ignore[call-overload]
    host.rrule("a", NOON, nothing)  # type: ignore[call-overload]
    host.schedule("a", "10s", nothing)  # type: ignore[call-overload]
    host.schedule("a", Sunsets, nothing)  # type: ignore[call-overload]
    host.register()  # type: ignore[call-arg]

    @host.every("a", 10)  # type: ignore[type-var]
    def wrong(number: int, text: str) -> None: ...

    decorators.every("a")  # type: ignore[call-arg]
    decorators.every("a", 10, nothing)  # type: ignore[call-arg, arg-type]
    decorators.cron("a", "@daily", overlap=1)  # type: ignore[arg-type]
    decorators.once("a", timedelta(1))  # type: ignore[arg-type]
    decorators.schedule("a", object())  # type: ignore[arg-type]
    decorators.every("a", 10)(5)  # type: ignore[type-var]
    Every(None)  # type: ignore[arg-type]
    Cron("@daily", timezone=None)  # type: ignore[arg-type]
    Once(5)  # type: ignore[arg-type]
