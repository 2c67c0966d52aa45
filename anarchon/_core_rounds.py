"""When to claim, how many runs to offer, and how many to win: rounds.

Pure. A tick's first claim goes out one random delay after its slots fall due; the delay
grows with the fleet, so that the mean spacing of two instances' claims stays the same. An
instance first wins at most its share of what is due, in later rounds twice, four times as
much. Without a free worker nothing is planned; the worker that becomes free claims at
once.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ._named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

OFFER = 128
MOST_OFFERED = 512
WIDEST_WINDOW = 1.0


class Crowd(NamedTuple):
    """What may be claimed, and by how many.

    `ready` slots and takeovers, by `instances` of the fleet; `jitter` is the smallest of
    their jobs, `period` the seconds until one of them is due again, `late` the seconds
    since the youngest slot fell due.
    """

    ready: int
    instances: int
    jitter: float
    period: float
    late: float

    def window(self, *, busy: bool) -> float:
        """Return how far a round's claims are spread over the fleet, in seconds."""
        wide = self.jitter * max(1.0, self.instances / self.ready)
        if busy:
            wide *= 2  # let an idle instance be faster
        return min(wide, WIDEST_WINDOW, self.period / 10)


class Round(NamedTuple):
    """A planned claim: when, which round of this tick, and its share of the slots due."""

    at: float
    number: int
    base: float
    window: float
    share: int


class Rounds:
    """The one claim that is planned, if any."""

    def __init__(self, workers: int, rng: Random) -> None:
        self._workers = workers
        self._rng = rng
        self._planned: Round | None = None
        self._starved = False  # something may be claimed, but no worker was free
        self.offer = OFFER

    @property
    def at(self) -> float | None:
        """The instant of the planned claim."""
        return None if self._planned is None else self._planned.at

    def due_share(self, mono: float) -> int | None:
        """Return how many runs a claim may win that is to be sent now; None: there is none."""
        planned = self._planned
        return planned.share if planned is not None and planned.at <= mono else None

    def clear(self) -> None:
        """Plan nothing: there is nothing to claim."""
        self._planned = None
        self._starved = False

    def plan(self, mono: float, *, free: int, busy: bool, crowd: Callable[[], Crowd]) -> None:
        """Keep a claim planned while a worker is free: something may be claimed."""
        if free == 0:
            self._planned = None
            self._starved = True
        elif self._starved:
            self._starved = False
            self._planned = Round(mono, 1, mono, 0.0, self._workers)
        elif self._planned is None:
            self._planned = self._first(crowd(), mono, busy=busy)

    def _first(self, crowd: Crowd, mono: float, *, busy: bool) -> Round:
        window = crowd.window(busy=busy)
        # The delay counts from the slot, so that a late wake-up doesn't add to it; unless
        # the slot is long past: then this instance just came to know of it.
        base = mono - crowd.late if crowd.late < window else mono
        at = max(mono, base + self._rng.random() * window)
        return Round(at, 1, base, window, ceil(crowd.ready / crowd.instances))

    def follow(self, offered: int, wins: int, won: int, mono: float, *, left: bool) -> None:
        """A claim was answered, slots may be left: plan the same round again, or the next."""
        last, self._planned = self._planned, None
        if last is None or not left:
            self.offer = OFFER
        elif won >= wins:
            earliest = last.base + last.number * last.window
            at = max(mono, earliest + self._rng.random() * last.window)
            share = min(last.share * 2, self._workers)
            self._planned = last._replace(at=at, number=last.number + 1, share=share)
        elif offered >= self.offer:
            self.offer = min(MOST_OFFERED, self.offer * 4)
            self._planned = last._replace(at=mono)
        else:
            self.offer = OFFER  # what is left fell due since: a tick of its own
