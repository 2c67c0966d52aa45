"""Asking schedules: equal ones once, and what to do about one that fails.

Pure. A schedule is user code, so that it may raise anything at any time: that suspends its
own job, is told about once, and it is asked again.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from ._texts import clean, said
from ._values import RunKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._core_jobs import JobSlots
    from ._messages import (
        Now,
        SlotSource,
    )

# A schedule that failed is asked again after this many seconds.
SUSPENDED_FOR = 60.0
# So many answers are remembered, for other jobs on an equal schedule.
MOST_KNOWN = 4096
# So many jobs are looked ahead for at once, so that inputs don't wait for long.
AT_ONCE = 50


class Schedules:
    """Asks schedules, and remembers those that failed."""

    def __init__(self) -> None:
        self._suspended: dict[str, JobSlots] = {}  # in the order of their next trial
        self.troubles: list[tuple[RunKey, str]] = []  # what failed, once each
        self._ahead: deque[JobSlots] = deque()  # whose slot after the next is not known yet
        # By schedule: no slot lies between the two instants, and the second is one.
        self._next: dict[SlotSource, tuple[int, int]] = {}
        self._latest: dict[SlotSource, tuple[int, int]] = {}

    def next_after(self, job: JobSlots, t_ms: int, now: Now) -> int | None:
        """Return the least slot greater than `t_ms`, None also when the schedule fails.

        A suspended one is asked itself: that is its trial.
        """
        source = job.spec.schedule
        since, slot = self._next.get(source, (0, 0))
        if since <= t_ms < slot and not self.is_suspended(job.spec.name):
            return slot
        found = self._ask(job, now, lambda: source.next_after_ms(t_ms))
        if found is not None:
            _keep(self._next, source, (t_ms, found))
        return found

    def latest(self, job: JobSlots, t_ms: int, now: Now) -> int | None:
        """Return the greatest slot at or before `t_ms`, None also when the schedule fails."""
        source = job.spec.schedule
        until, slot = self._latest.get(source, (-1, 0))
        if slot <= t_ms <= until and not self.is_suspended(job.spec.name):
            return slot
        found = self._ask(job, now, lambda: source.latest_ms(t_ms))
        if found is not None:
            _keep(self._latest, source, (t_ms, found))
        return found

    def following(self, job: JobSlots, slot_ms: int, now: Now) -> int | None:
        """Return the slot after one of the job's own, which is known when it was looked for."""
        if job.ahead is None or job.ahead[0] != slot_ms:
            found = self.next_after(job, slot_ms, now)
            if self.is_suspended(job.spec.name):
                return found
            job.ahead = (slot_ms, found)
        return job.ahead[1]

    def will_ask(self, job: JobSlots) -> None:
        """Look ahead for a job when there is time: it has another next slot."""
        self._ahead.append(job)

    @property
    def is_behind(self) -> bool:
        """Whether there is somebody to look ahead for."""
        return bool(self._ahead)

    def look_ahead(self, now: Now) -> None:
        """Compute for some jobs which slot comes after the next one."""
        for _ in range(min(AT_ONCE, len(self._ahead))):
            job = self._ahead.popleft()
            if job.next_ms is not None:
                self.following(job, job.next_ms, now)

    def is_suspended(self, name: str) -> bool:
        """Say whether a job waits for its schedule to work again."""
        return name in self._suspended

    def next_trial(self, now: Now) -> JobSlots | None:
        """Return a job whose schedule is to be asked again now."""
        job = next(iter(self._suspended.values()), None)
        return None if job is None or job.retry_at > now.mono else job

    def forget(self, name: str) -> None:
        """Forget a job."""
        self._suspended.pop(name, None)

    def clear(self) -> None:
        """Forget every job."""
        self._suspended.clear()
        self._ahead.clear()
        self._next.clear()
        self._latest.clear()

    def wakeups(self) -> Iterator[float]:
        """Yield the monotonic instant of the next trial."""
        for job in self._suspended.values():
            yield job.retry_at
            break

    def _ask(self, job: JobSlots, now: Now, compute: Callable[[], int | None]) -> int | None:
        try:
            answer = compute()
        except BaseException as error:
            if job.retry_at == inf:
                self.troubles.append((RunKey(job.spec.name, now.wall_ms), clean(said(error))))
            job.retry_at = now.mono + SUSPENDED_FOR
            self.forget(job.spec.name)
            self._suspended[job.spec.name] = job
            return None
        if job.retry_at <= now.mono:
            job.retry_at = inf
            self.forget(job.spec.name)
        return answer


def _keep(
    known: dict[SlotSource, tuple[int, int]], source: SlotSource, answer: tuple[int, int]
) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[source] = answer
