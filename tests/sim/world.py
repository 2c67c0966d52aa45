"""Model time: one queue of events, and hosts whose clocks run beside it.

Everything a simulation does is an event of one `World`. Equal times keep the order in which
they were planned, so a seed gives the same run again and again.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = 1_760_000_000.0  # true seconds since 1970 UTC when a simulation begins


SHORT = 0.2  # seconds that a wait may take to end as promptly as a hand-over between threads


class Violation(AssertionError):
    """An invariant doesn't hold; `name` says which."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class World:
    """True time, what happens next, and all the randomness of one simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.rng = Random(seed)
        self.each_step: Callable[[], None] | None = None
        self.steps = 0
        self.most_steps: float = inf  # a simulation with more of them goes round in circles
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()

    def stream(self, name: str) -> Random:
        """Return randomness of its own for one part, so that no other part changes it."""
        return Random(f"{self.seed}/{name}")

    def at(self, when: float, call: Callable[..., None], *args: object) -> None:
        """Do something at a true time; what lies in the past happens now."""
        when = max(when, self.now)
        heappush(self._queue, (when, next(self._order), call, args))

    def after(self, seconds: float, call: Callable[..., None], *args: object) -> None:
        """Do something after some true seconds."""
        heappush(self._queue, (self.now + seconds, next(self._order), call, args))

    def run(self, until: float) -> None:
        """Let everything happen up to a true time."""
        queue, each_step = self._queue, self.each_step
        while queue and queue[0][0] <= until:
            self.now, _, call, args = heappop(queue)
            self.steps += 1
            call(*args)
            if each_step is not None:
                each_step()
                if self.steps > self.most_steps:
                    self.fail("no-polling", f"{self.steps} events, and no end")
        self.now = until

    def fail(self, name: str, text: str) -> None:
        """Report that an invariant doesn't hold."""
        raise Violation(name, f"{text} [seed {self.seed}, {self.now:.3f} s]")


class Host:
    """The clocks of one machine, and how long its threads and its network take.

    `drift` is how much faster its monotonic clock runs than true time; in seconds, `wake` is
    the longest delay of a timed wait, `hop` that of handing something to another thread, and
    `trip` one way to the store. While the machine is suspended its monotonic clock stands still.
    """

    def __init__(
        self,
        world: World,
        *,
        offset: float = 0.0,
        drift: float = 0.0,
        wake: float = 0.0,
        hop: float = 0.0,
        trip: float = 0.0,
        rng: Random | None = None,
        name: str = "",
    ) -> None:
        self.offset = offset
        self.drift = drift
        self.wake = wake
        self.hop = hop
        self.trip = trip
        self.rng = rng or world.rng
        self.name = name
        self._world = world
        self._zero = self.rng.uniform(10.0, 1e5)
        self._slept = 0.0  # for how long it was suspended, in all
        self._asleep: float | None = None  # since when it is
        self._slew = 0.0
        self._slews_since = 0.0

    def mono(self) -> float:
        """Return the monotonic clock."""
        now = self._world.now if self._asleep is None else self._asleep
        return self._zero + (now - self._slept) * (1.0 + self.drift)

    def wall(self) -> float:
        """Return the wall clock."""
        now = self._world.now
        slewed = self._slew * (now - self._slews_since)
        return EPOCH + now * (1.0 + self.drift) + self.offset + slewed

    def true_at(self, mono: float) -> float:
        """Return the true time at which the monotonic clock shows this."""
        return (mono - self._zero) / (1.0 + self.drift) + self._slept

    @property
    def asleep(self) -> bool:
        """Whether the machine is suspended."""
        return self._asleep is not None

    def suspend(self) -> None:
        """Stop the monotonic clock."""
        self._asleep = self._world.now

    def resume(self) -> float:
        """Let the monotonic clock go on; return how long it stood."""
        slept = 0.0 if self._asleep is None else self._world.now - self._asleep
        self._slept += slept
        self._asleep = None
        return slept

    def slew(self, rate: float) -> None:
        """Have the wall clock gain so much on the monotonic one, each second."""
        self.offset += self._slew * (self._world.now - self._slews_since)
        self._slew, self._slews_since = rate, self._world.now

    @property
    def slow(self) -> float:
        """The most by which any wait ends late."""
        return max(self.wake, self.hop)

    def late(self, wait: float) -> float:
        """Return by how much a timed wait ends late: a short one little, it finds all awake."""
        # Never early by the rounding of floats.
        return 1e-6 + (self.wake if wait > SHORT else self.hop) * self.rng.random()

    def hand_over(self) -> float:
        """Return how long it takes until another thread has what it is given."""
        return self.hop * self.rng.random()
