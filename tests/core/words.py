"""The words of the stories in this folder: instants, jobs, and what a store says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._messages import (
    JobSpec,
)
from anarchon._runs import Run
from anarchon._values import (
    Closed,
    Early,
    Free,
    Held,
    Lease,
    Missing,
    OpenRun,
    RunKey,
    Suspect,
    Terms,
    Waiting,
    Won,
    instant,
)
from anarchon.schedules import Every

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._values import Answer, Wish

T0 = 1_800_000_000_000  # milliseconds; a whole hour, so that slots lie on it
ME, OTHER = "me", "other"


def ms(seconds: float) -> int:
    """Return the wall time, in milliseconds, of an instant of the story."""
    return T0 + round(seconds * 1000)


def key(job: str, slot: float) -> RunKey:
    return RunKey(job, ms(slot))


def lease(job: str, slot: float, attempt: int = 1) -> Lease:
    return Lease(key(job, slot), attempt)


class Once:
    """A schedule with the slots given, in seconds of the story."""

    def __init__(self, *slots: float) -> None:
        self._slots = sorted(map(ms, slots))

    def next_after_ms(self, t_ms: int) -> int | None:
        return next((slot for slot in self._slots if slot > t_ms), None)

    def latest_ms(self, t_ms: int) -> int | None:
        return next((slot for slot in reversed(self._slots) if slot <= t_ms), None)


def job(
    name: str = "sync",
    every: float = 10,
    *,
    schedule: object = None,
    schedule_at: float | None = None,
    budget: int = 3,
    catch_up: float = 0,
    overlap: str = "skip",
    jitter: float = 0.02,
    timeout: float | None = None,
    lease: float = 30,
    heartbeat: float = 10,
    expect: float | None = None,
) -> JobSpec:
    """Return a job of the story; its catch-up is off unless a test is about that."""
    terms = Terms(
        round(lease * 1000), round(heartbeat * 1000), budget, overlap == "skip", ms(catch_up) - T0
    )
    if schedule_at is not None:
        schedule = Once(schedule_at)
    expect_ms = None if expect is None else round(expect * 1000)
    return JobSpec(name, schedule or Every(every), terms, jitter, timeout, expect_ms=expect_ms)


# --- what a store says --------------------------------------------------------


def running(
    run: RunKey,
    attempt: int = 1,
    *,
    beat: int = 0,
    left: float = 30,
    lease: float = 30,
    heartbeat: float = 10,
    by: str = OTHER,
) -> OpenRun:
    """Return an open run that somebody runs."""
    left_ms, lease_ms, heartbeat_ms = (round(s * 1000) for s in (left, lease, heartbeat))
    return OpenRun(
        run, "running", attempt, beat, left_ms, lease_ms, heartbeat_ms, by, mine=by == ME
    )


def aged(run: OpenRun, seconds: float) -> OpenRun:
    """Return a run as it is so much later, if nobody renews its lease."""
    return run._replace(left_ms=run.left_ms - round(seconds * 1000))


def handed_over(run: RunKey, attempt: int = 1) -> OpenRun:
    """Return an open run that waits for its next attempt."""
    return OpenRun(run, "waiting", attempt)


def triggered(job: str = "sync", at: float = 0, number: int = 1) -> RunKey:
    """Return a run that the fleet was asked for at that instant."""
    return RunKey(job, ms(at), f"trigger-{number}")


def backfilled(job: str = "sync", slot: float = -60, number: int = 1) -> RunKey:
    """Return a past slot that the fleet was asked for."""
    return RunKey(job, ms(slot), f"backfill-call-{number}")


def ordered(run: RunKey) -> OpenRun:
    """Return a run that nobody has taken yet."""
    return OpenRun(run, "waiting", 0)


def record(run: RunKey, status: str, attempt: int = 1, detail: str | None = None) -> Run:
    """Return a line of history."""
    return Run(run.run_id, run.job, run.slot_ms, instant(run.slot_ms), attempt, status, detail)


def won(
    left: float = 30, fence: int = 1, attempt: int | None = None, data: str | None = None
) -> Callable[[Wish], Answer]:
    return lambda wish: Won(wish.key, attempt or wish.wants, round(left * 1000), fence, data)


def held(attempt: int = 1, **how: object) -> Callable[[Wish], Answer]:
    return lambda wish: Held(wish.key, running(wish.key, attempt, **how))


def waiting(attempt: int = 1) -> Callable[[Wish], Answer]:
    return lambda wish: Waiting(wish.key, attempt)


def closed(
    status: str = "success", by: str = OTHER, detail: str | None = None, attempt: int = 1
) -> Callable[[Wish], Answer]:
    """Say that a run is decided; what this very instance decided comes with its record."""

    def answer(wish: Wish) -> Answer:
        run = record(wish.key, status, attempt, detail) if by == ME else None
        return Closed(wish.key, status, detail, by, run)

    return answer


def told_alike() -> Callable[[Wish], Answer]:
    """Say that somebody else has recorded a missed slot, in the words of the asker."""
    return lambda wish: Closed(wish.key, "missed", wish.detail, OTHER)


def free() -> Callable[[Wish], Answer]:
    return lambda wish: Free(wish.key)


def early(seconds: float) -> Callable[[Wish], Answer]:
    return lambda wish: Early(wish.key, round(seconds * 1000))


def suspect(other: OpenRun) -> Callable[[Wish], Answer]:
    return lambda wish: Suspect(wish.key, other)


def missing() -> Callable[[Wish], Answer]:
    return lambda wish: Missing(wish.key)
