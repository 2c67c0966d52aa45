"""Results that wait for a transaction of the handler's, which is still open and decides.

Pure, like the whole core.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._messages import (
        Now,
    )
    from ._values import Lease, Result

LONGEST = 1.0  # seconds until the store is asked again


class PutOff:
    """Results that were sent and are undecided, to be sent again together."""

    def __init__(self, heartbeat: float) -> None:
        self._pause = min(heartbeat, LONGEST)
        self._waiting: dict[Lease, tuple[dict[Lease, Result], Result]] = {}
        self.until = inf

    def take(self, lease: Lease, *queues: dict[Lease, Result], now: Now) -> None:
        """Take a result out of the queue that has it, for a while."""
        for queue in queues:
            if lease in queue:
                self._waiting[lease] = queue, queue.pop(lease)
                self.until = min(self.until, now.mono + self._pause)

    def bring_back(self, now: Now) -> None:
        """Put the results back into their queues, if it is time."""
        if now.mono < self.until:
            return
        self.until = inf
        for lease, (queue, result) in self._waiting.items():
            queue[lease] = result
        self._waiting.clear()
