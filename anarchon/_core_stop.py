"""When a scheduler that was asked to stop has stopped.

Pure. It has when every end is recorded and every claim settled, or at the timeout. While
the store can't be reached and only claims are open, it doesn't wait for long: what they won
nobody started, and its lease ends by itself. A stop
called from a run's own handler doesn't wait for that run: the caller may go on once all
others are done, and the run has one heartbeat past the timeout to end and be recorded.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ._messages import (
    Drained,
    Stopped,
)

if TYPE_CHECKING:
    from ._core_attempts import Attempts
    from ._core_held import Held, HeldRuns
    from ._messages import (
        Action,
        Now,
        Settings,
        Stop,
    )
    from ._values import (
        Lease,
    )


# How long a claim without an answer is worth a stop's time while the store is down.
HOPELESS_AFTER = 1.0


class Stopping:
    """Whether this instance is stopping, and how far it is."""

    def __init__(
        self, settings: Settings, held: HeldRuns, attempts: Attempts, out: list[Action]
    ) -> None:
        self._settings = settings
        self._held = held
        self._attempts = attempts
        self._out = out
        self._until = inf
        self._hopeless_at = inf
        self._spared: frozenset[Lease] = frozenset()
        self._drained = False
        self.done = False

    @property
    def asked(self) -> bool:
        """Whether `Stop` has come."""
        return self._until < inf

    def begin(self, stop: Stop, now: Now) -> None:
        """Take a stop in; of several, the first one's timeout counts."""
        self._spared |= stop.spare
        if not self.asked:
            self._until = now.mono + stop.timeout
            self._hopeless_at = now.mono + HOPELESS_AFTER

    def wakeups(self) -> list[float]:
        """Return the monotonic instants at which time runs out."""
        if not self.asked:
            return []
        return [self._hopeless_at, self._until, self._until + self._settings.heartbeat]

    def check(self, now: Now, *, settled: bool, hopeless: bool) -> None:
        """Say what is done.

        `settled`: nothing is owed to the store or awaited from it. `hopeless`: only claims
        and looks are, and the store can't be reached.
        """
        settled = settled or (hopeless and now.mono >= self._hopeless_at)
        rest = [held for held in self._held if _waited_for(held)]
        others = [held for held in rest if held.lease not in self._spared]
        if now.mono >= self._until:
            spared_too_long = now.mono >= self._until + self._settings.heartbeat
            if len(others) == len(rest) or spared_too_long:
                self._attempts.leave(rest)
                self._end()
            else:
                self._drain()
        elif not others and settled:
            if rest:
                self._drain()
            else:
                self._end()

    def _drain(self) -> None:
        if not self._drained:
            self._drained = True
            self._out.append(Drained())

    def _end(self) -> None:
        self._drain()
        self.done = True
        self._out.append(Stopped())


def _waited_for(held: Held) -> bool:
    """A record that is not written, or a handler that may still obey."""
    return held.record in ("open", "settling") or (held.handler == "live" and not held.stuck)
