"""What `Scheduler.health` answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._clock import Clock
    from ._lifecycle import Life
    from ._lifecycle_journal import Outage
    from ._lifecycle_states import State
    from ._scheduler_options import Options
    from ._threads import EngineStats


@dataclass(frozen=True, slots=True)
class Health:
    """How a scheduler is doing, as far as this process knows without asking anybody.

    ``ok`` is False when nothing can run here: the scheduler isn't running, the store
    can't be reached, there was no thread for the last handler, or so many handlers ignore
    their abort that they aren't replaced any more. ``reasons`` says so in words, and tells
    as well what is unusual but leaves ``ok`` alone: a late heartbeat, clocks that differ by
    more than a second, jobs that are suspended because their schedules fail.

    ``last_contact`` is when the store last answered (aware, UTC; None: never since
    `start`). ``clock_offset`` is the store's clock minus this host's, in seconds (None:
    unknown), ``heartbeat_late`` by how many seconds the last heartbeat was late.
    ``running`` counts handlers, ``stuck`` those of them that ignore their abort,
    ``free_workers`` how many more may start.
    """

    ok: bool
    state: State
    store_up: bool
    last_contact: datetime | None
    clock_offset: float | None
    running: int
    free_workers: int
    stuck: int
    heartbeat_late: float
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON; datetimes as ISO text."""
        contact = self.last_contact.isoformat() if self.last_contact else None
        return {**asdict(self), "last_contact": contact, "reasons": list(self.reasons)}


def health_of(life: Life | None, options: Options, clock: Clock, *, parent: int | None) -> Health:
    """Return how a scheduler is doing, from what its threads have left to be read."""
    engine = life.engine if life is not None else None
    state: State = life.state if life is not None else "idle"
    if life is None or engine is None or state not in ("running", "stopping"):
        outage = life.journal.outage if life is not None else None
        reasons = _not_running(state, options, outage, parent)
        return Health(not reasons, state, False, None, None, 0, 0, 0, 0.0, reasons)
    stats = engine.stats()
    serious = [*_not_running(state, options, None, None)]
    if not stats.store_up:
        serious.append("the store can't be reached")
    if stats.no_thread is not None:
        serious.append(f"the last handler was not called, {stats.no_thread}")
    if stats.stuck >= options.workers:
        serious.append(f"{_ignore(stats.stuck)}, and no more of them are replaced")
    return Health(
        ok=not serious,
        state=state,
        store_up=stats.store_up,
        last_contact=_moment(stats.last_contact, clock),
        clock_offset=stats.clock_offset,
        running=stats.running,
        free_workers=stats.free_workers,
        stuck=stats.stuck,
        heartbeat_late=stats.heartbeat_late,
        reasons=(*serious, *_unusual(stats, options)),
    )


def _ignore(stuck: int) -> str:
    return "1 handler ignores its abort" if stuck == 1 else f"{stuck} handlers ignore their abort"


def _not_running(
    state: State, options: Options, outage: Outage | None, parent: int | None
) -> tuple[str, ...]:
    if state == "running" or (state == "idle" and not options.enabled):
        return ()
    if state == "idle" and parent is not None:
        return (f"the scheduler was started in another process, {parent}; call start() here",)
    why = f": the store can't be reached: {outage.error}" if outage is not None else ""
    return (f"the scheduler is {state}{why}",)


def _unusual(stats: EngineStats, options: Options) -> list[str]:
    reasons = []
    if 0 < stats.stuck < options.workers:
        reasons.append(_ignore(stats.stuck))
    if stats.heartbeat_late > options.heartbeat_ms / 1000:
        reasons.append(f"the heartbeat is late by {stats.heartbeat_late:.1f} s")
    reasons.extend(
        f"job {name!r} is suspended: its schedule can't be computed" for name in stats.suspended
    )
    if stats.clock_far:
        reasons.append(f"the clocks of store and host are {abs(stats.clock_offset):.1f} s apart")
    return reasons


def _moment(mono: float | None, clock: Clock) -> datetime | None:
    if mono is None:
        return None
    return datetime.fromtimestamp(clock.wall() - (clock.mono() - mono), UTC)
