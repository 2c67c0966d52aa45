"""Back-off after failed store calls, and the outage that a scheduler tells about.

Pure: randomness and the time are given. A failed call is repeated at once, since the
next connection is a new one; after that the pause doubles from 0.1 s up to a cap, each
time shortened by a random share, so that a fleet doesn't come back in step.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

FIRST_PAUSE = 0.1
_DOUBLINGS = 16  # enough for every cap, and no overflow after a year of failures


class Backoff:
    """When the next call may be sent: at once, until calls fail."""

    def __init__(self, cap: float, rng: Random) -> None:
        self.until = -inf
        self.failures = 0
        self._cap = cap
        self._rng = rng

    def failed(self, mono: float) -> None:
        """Note a failure; the first one allows an immediate repeat."""
        pause = 0.0
        if self.failures:
            doubled = FIRST_PAUSE * 2.0 ** min(self.failures - 1, _DOUBLINGS)
            pause = min(self._cap, doubled) * self._rng.uniform(0.5, 1.0)
        self.failures += 1
        self.until = mono + pause

    def answered(self) -> None:
        """Note a success."""
        self.failures = 0
        self.until = -inf

    def is_open(self, mono: float) -> bool:
        """Say whether a call may be sent now."""
        return mono >= self.until


class Outage:
    """Whether the store can be asked: two gates, since renewals are in more of a hurry.

    An outage begins when a call fails and so does its immediate repeat, and is over when
    no kind of call fails any more.
    """

    def __init__(self, heartbeat: float, rng: Random) -> None:
        self.calls = Backoff(min(5.0, heartbeat / 2), rng)
        self.renewals = Backoff(heartbeat / 10, rng)
        self.on = False

    def begins(self, gate: Backoff, mono: float) -> bool:
        """Note that a call failed at its gate; say whether an outage begins."""
        gate.failed(mono)
        began = gate.failures > 1 and not self.on
        self.on = self.on or began
        return began

    def ends(self, gate: Backoff) -> bool:
        """Note that a call was answered; say whether an outage is over."""
        gate.answered()
        over = self.on and not self.calls.failures and not self.renewals.failures
        self.on = self.on and not over
        return over


class Fleet:
    """How many instances there are, as far as their answers showed.

    There is no list of members: distinct owners in the store's answers of the last ten
    minutes are counted, this instance included.
    """

    WINDOW = 600.0
    MOST = 1000

    def __init__(self, token: str) -> None:
        self._token = token
        self._seen: dict[str, float] = {}

    def note(self, token: str, mono: float) -> None:
        """Remember that this owner answered for a run."""
        if token and token != self._token:
            self._seen.pop(token, None)
            self._seen[token] = mono

    def size(self, mono: float) -> int:
        """Return the number of instances, forgetting those not seen for a while."""
        # Insertion order is age order, so the oldest are in front.
        while self._seen:
            oldest = next(iter(self._seen))
            recent = mono - self._seen[oldest] <= self.WINDOW
            if recent and len(self._seen) < self.MOST:
                break
            del self._seen[oldest]
        return len(self._seen) + 1
