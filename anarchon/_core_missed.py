"""The slots that nobody ran, until the store has them as missed.

Pure. A slot may be closed as missed when its job's next slot is due. While the store gives
no answer nothing can be written in between, so one record stands for all slots of a job in
an outage. No wake-up and no call looks at all that is kept here: there may be a slot of
every job.
"""

from __future__ import annotations

import heapq
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from ._named import NamedTuple
from ._values import RunKey, SkipWish, instant, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ._messages import (
        Now,
    )

# Why slots passed while the store gave no answer; their records are merged into one.
UNREACHABLE = "store unreachable"
_SINCE = "; slots since "


class Missed(NamedTuple):
    """A slot to close as missed; its record stands for every slot since `first_ms`."""

    wish: SkipWish
    first_ms: int
    why: str
    tries: int  # how many later slots somebody else turned out to have


class Misses:
    """The slots to close as missed."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[RunKey, Missed]] = {}
        self._ready: dict[RunKey, Missed] = {}  # may be sent now
        self._seeking: dict[RunKey, Missed] = {}  # as well, after somebody had later slots
        self._later: list[tuple[int, RunKey]] = []  # a heap: when the next slot is due
        self._put_off: dict[RunKey, float] = {}  # the store found it too early

    def add(
        self, job: str, first_ms: int, last_ms: int, next_ms: int, why: str, tries: int = 0
    ) -> None:
        """Close `last_ms` once `next_ms` is due; the record stands for all since `first_ms`."""
        known = self._jobs.setdefault(job, {})
        if tries:
            pass  # it looks for a place among older slots, and is not what goes on now
        elif why == UNREACHABLE:
            first_ms = min([first_ms, *(missed.first_ms for missed in known.values())])
            self._drop(list(known))
        else:
            for key, missed in list(known.items()):
                if missed.why == UNREACHABLE and missed.first_ms == next_ms:
                    # Its claim got no answer until now; the outage has a record already.
                    last_ms, next_ms, why = key.slot_ms, missed.wish.next_ms, UNREACHABLE
                    break
        key = RunKey(job, last_ms)
        wish = SkipWish(key, next_ms, _detail(first_ms, last_ms, why))
        known[key] = Missed(wish, first_ms, why, tries)
        heapq.heappush(self._later, (next_ms, key))

    def remove(self, job: str) -> None:
        """Forget the slots of a job."""
        self._drop(list(self._jobs.get(job, ())))
        self._jobs.pop(job, None)

    def settled(self, key: RunKey) -> Missed | None:
        """Forget a slot, and return what it was: the store has answered for it."""
        missed = self._jobs.get(key.job, {}).get(key)
        self._drop([key])
        return missed

    def forget_after(self, wall_ms: int) -> list[Missed]:
        """Forget and return what lies ahead: the clock has stepped back."""
        ahead = [
            missed
            for known in self._jobs.values()
            for key, missed in known.items()
            if key.slot_ms > wall_ms
        ]
        self._drop([missed.wish.key for missed in ahead])
        return ahead

    def clear(self) -> None:
        """Forget everything."""
        for kept in (self._jobs, self._ready, self._seeking, self._later, self._put_off):
            kept.clear()

    # --- time ---

    def collect(self, now: Now) -> None:
        """Find what may be closed by now."""
        while self._later and self._later[0][0] <= now.wall_ms:
            due_ms, key = heapq.heappop(self._later)
            missed = self._jobs.get(key.job, {}).get(key)
            if missed is not None and missed.wish.next_ms == due_ms:
                self._admit(missed)
        for key in [key for key, mono in self._put_off.items() if mono <= now.mono]:
            del self._put_off[key]
            self._admit(self._jobs[key.job][key])

    def ready(self, most: int) -> tuple[SkipWish, ...]:
        """Return slots that may be closed now, at most so many."""
        return tuple(missed.wish for missed in islice(self._ready.values(), most))

    def seeking(self, most: int) -> tuple[SkipWish, ...]:
        """Return slots that are tried because somebody had later ones, at most so many."""
        return tuple(missed.wish for missed in islice(self._seeking.values(), most))

    def put_off(self, key: RunKey, mono: float) -> None:
        """The store finds it too early to close this slot."""
        if (self._ready.pop(key, None) or self._seeking.pop(key, None)) is not None:
            self._put_off[key] = mono

    def wakeups(self, now: Now) -> Iterator[float]:
        """Yield the monotonic instants at which a slot may be closed."""
        if self._ready or self._seeking:
            yield now.mono
        if self._later:
            yield now.mono + (self._later[0][0] - now.wall_ms) / 1000
        yield from self._put_off.values()

    def _admit(self, missed: Missed) -> None:
        (self._seeking if missed.tries else self._ready)[missed.wish.key] = missed

    def _drop(self, keys: Iterable[RunKey]) -> None:
        for key in keys:
            self._jobs.get(key.job, {}).pop(key, None)
            self._ready.pop(key, None)
            self._seeking.pop(key, None)
            self._put_off.pop(key, None)


def _detail(first_ms: int, last_ms: int, why: str) -> str:
    if first_ms == last_ms:
        return why
    return f"{why}{_SINCE}{moment(instant(first_ms))}"


def first_covered(last_ms: int, detail: str | None) -> int:
    """Return the first slot that somebody's record stands for, by what it says."""
    _, _, since = (detail or "").partition(_SINCE)
    try:
        return round(datetime.fromisoformat(since).timestamp() * 1000)
    except ValueError:  # it stands for its own slot, or words it as another version does
        return last_ms
