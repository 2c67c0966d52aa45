"""The one store of a simulation: the real `MemoryBackend`, on a clock of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._clock import Basis
from anarchon._messages import (
    Look,
    Unfinished,
)
from anarchon._threads_lanes import Ask
from anarchon._values import Limits
from anarchon.backends.memory import MemoryBackend, MemoryRows

from .world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        StoreCall,
    )
    from anarchon._threads_lanes import Lane, StoreAnswer
    from anarchon._values import Owner, Pace

    from .world import World

    Executed = Callable[[StoreCall, StoreAnswer, Owner, bool], None]

READ_ONLY = "read-only"
NO_BASIS = Basis(0.0, 0.0, 0.0, 0.0, steady=True)  # what is said of clocks is said at sending


class StoreTime:
    """The store's clocks. A step moves the wall clock, and leases only where they follow it."""

    def __init__(self, world: World) -> None:
        self.offset = 0.0
        self._world = world

    def wall_ms(self) -> int:
        """Return the store's wall time."""
        return int((EPOCH + self._world.now + self.offset) * 1000)

    def lease_ms(self) -> int:
        """Return a clock that never steps."""
        return int(self._world.now * 1000)


class Store:
    """Executes calls one after another, each in its moment.

    `down` is ``"refused"``, ``"hole"`` (no answer at all) or ``"read-only"`` during an outage,
    `slow` the seconds that every answer takes longer for a while. The times that a call takes
    are those of `timing.md`: a single server that is busy with one call at a time.
    """

    CALL, RUN, WIN = 55e-6, 4e-6, 15e-6

    def __init__(self, world: World, *, steady: bool = True) -> None:
        self.time = StoreTime(world)
        self.steady = steady
        self.down: str | None = None
        self.slow = 0.0
        self.calls: dict[str, int] = {}
        self.on_executed: Executed | None = None
        self.backend = MemoryBackend()
        self.backend._time = self.time
        self.backend._steady = steady
        self.info = self.backend.open(Limits())
        self._world = world
        self._busy_until = 0.0

    def lease_now(self) -> float:
        """Return the clock that judges leases, in seconds."""
        return (self.time.lease_ms() if self.steady else self.time.wall_ms()) / 1000

    def step(self, seconds: float) -> None:
        """Step the store's wall clock."""
        self.time.offset += seconds

    def delay(self, runs: int, wins: int) -> float:
        """Return how long an answer takes here, and be busy for that long."""
        start = max(self._world.now, self._busy_until)
        self._busy_until = start + self.CALL + self.RUN * runs + self.WIN * wins
        return self._busy_until - self._world.now + self.slow

    # --- what an outage does ---

    def shut(self, call: StoreCall) -> str | None:
        """Return how a call fails now: ``"refused"`` or ``"hole"``; None: it is answered."""
        if self.down == READ_ONLY:
            return None if isinstance(call, Look | Unfinished) else "refused"
        return self.down

    def copy(self) -> MemoryRows:
        """Return everything as it is now: what a replica has that hears of nothing more."""
        kept = MemoryRows()
        for name, value in vars(self.backend._rows).items():
            setattr(kept, name, _copied(value))
        return kept

    def become(self, rows: MemoryRows) -> None:
        """Go on with these rows, whatever was written since they were copied."""
        self.backend._rows = rows

    # --- calls ---

    def execute(self, lane: Lane, call: StoreCall, pace: Pace, *, old: bool = False) -> StoreAnswer:
        """Execute a call now, as the lane of its sender does; `old`: a copy nobody waits for."""
        name = type(call).__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        answer = lane._checked(call, lane._ask(Ask(call, 0.0, NO_BASIS), pace))
        if self.on_executed is not None:
            self.on_executed(call, answer, lane._owner, old)
        return answer


def _copied(value: object) -> object:
    """Copy dicts and lists, and those in them; what they hold in the end never changes."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return list(value) if isinstance(value, list) else value
