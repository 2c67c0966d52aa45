"""The one store of a simulation: the real `MemoryBackend`, on a clock of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._values import Limits
from anarchon.backends.memory import MemoryBackend

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

    `down` is ``"refused"`` or ``"hole"`` (no answer at all) during an outage. The times that a
    call takes are those of `timing.md`: a single server that is busy with one call at a time.
    """

    CALL, RUN, WIN = 55e-6, 4e-6, 15e-6

    def __init__(self, world: World, *, steady: bool = True) -> None:
        self.time = StoreTime(world)
        self.steady = steady
        self.down: str | None = None
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
        return self._busy_until - self._world.now

    def execute(self, lane: Lane, call: StoreCall, pace: Pace, *, old: bool = False) -> StoreAnswer:
        """Execute a call now, as the lane of its sender does; `old`: a copy nobody waits for."""
        name = type(call).__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        answer = lane._checked(call, lane._ask(call, pace))
        if self.on_executed is not None:
            self.on_executed(call, answer, lane._owner, old)
        return answer
