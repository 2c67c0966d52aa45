"""Asking schedules: equal ones once, and what to do about one that fails or is slow.

Pure. A schedule is user code, so that it may raise anything at any time: that suspends its
own job, is told about once, and it is asked again. One that needs longer than a moment says
`NotYet`; its job waits for the answer, and nobody else does.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from ._messages import Note, NotYet
from ._named import NamedTuple
from ._texts import clean, said
from ._values import RunKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._core_jobs import JobSlots
    from ._messages import (
        Later,
        Now,
        SlotSource,
    )

# A schedule that failed is asked again after this many seconds.
SUSPENDED_FOR = 60.0
# One that hasn't answered after so many has failed.
ANSWER_WITHIN = 1.0
# So many answers are remembered, for other jobs on an equal schedule.
MOST_KNOWN = 4096
# So many jobs are looked ahead for at once, so that inputs don't wait for long.
AT_ONCE = 50


class Waiting(NamedTuple):
    """A job whose schedule hasn't answered yet, and until when it may."""

    job: JobSlots
    until: float


class Known:
    """What schedules have answered: between the question and the slot there is no other."""

    def __init__(self, nothing: float) -> None:
        self._nothing = nothing  # the slot that stands for none
        self._answers: dict[SlotSource, tuple[int, float]] = {}

    def keep(self, schedule: SlotSource, t_ms: int, slot: int | None) -> None:
        """Remember the last answer of a schedule."""
        if len(self._answers) >= MOST_KNOWN:
            self._answers.clear()
        self._answers[schedule] = (t_ms, self._nothing if slot is None else slot)

    def find(self, schedule: SlotSource, t_ms: int) -> tuple[int | None] | None:
        """Return the answer in a tuple; None if it isn't known."""
        if (known := self._answers.get(schedule)) is None:
            return None
        asked, slot = known
        # Both ends belong to "the latest slot up to", the slot's own not to "the next after".
        is_good = asked <= t_ms < slot if self._nothing > 0 else slot <= t_ms <= asked
        return ((None if slot == self._nothing else int(slot)),) if is_good else None

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()


class Schedules:
    """Asks schedules, and remembers those that failed."""

    def __init__(self) -> None:
        self._suspended: dict[str, JobSlots] = {}  # in the order of their next trial
        self._waiting: dict[str, Waiting] = {}  # in the order of their ends
        self.failing: dict[str, None] = {}  # the jobs that were told of, and not yet as mended
        self.troubles: list[tuple[RunKey, str]] = []  # what failed, once each; "" is mended
        self._ahead: deque[JobSlots] = deque()  # whose slot after the next is not known yet
        self._next = Known(inf)
        self._latest = Known(-inf)

    def next_after(self, job: JobSlots, t_ms: int, now: Now) -> int | None:
        """Return the least slot greater than `t_ms`, None also when there is no answer.

        A suspended one is asked itself: that is its trial.
        """
        return self._ask(job, now, self._next, t_ms, job.spec.schedule.next_after_ms)

    def latest(self, job: JobSlots, t_ms: int, now: Now) -> int | None:
        """Return the greatest slot at or before `t_ms`, None also when there is no answer."""
        return self._ask(job, now, self._latest, t_ms, job.spec.schedule.latest_ms)

    def following(self, job: JobSlots, slot_ms: int, now: Now) -> int | None:
        """Return the slot after one of the job's own, which is known when it was looked for."""
        if job.ahead is None or job.ahead[0] != slot_ms:
            found = self.next_after(job, slot_ms, now)
            if not self.has_answered(job.spec.name):
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

    def take_notes(self) -> list[Note]:
        """Return what is to be told, once."""
        notes = [Note("schedule", key, text) for key, text in self.troubles]
        self.troubles.clear()
        return notes

    def is_suspended(self, name: str) -> bool:
        """Say whether a job waits for its schedule to work again."""
        return name in self._suspended

    def has_answered(self, name: str) -> bool:
        """Say whether the last question of a job was answered."""
        return name not in self._suspended and name not in self._waiting

    def next_trial(self, now: Now) -> JobSlots | None:
        """Return a job whose schedule is to be asked again now."""
        job = next(iter(self._suspended.values()), None)
        return None if job is None or job.retry_at > now.mono else job

    def give_up_waiting(self, now: Now) -> None:
        """Take those that haven't answered in time for failed."""
        for job, until in list(self._waiting.values()):
            if until > now.mono:
                break
            self._failed(job, TimeoutError(f"no answer within {ANSWER_WITHIN:g} s"), now)

    def heard(self, later: Later, now: Now) -> list[JobSlots]:
        """Take in an answer; return the jobs that can go on with it."""
        jobs = [w.job for w in self._waiting.values() if w.job.spec.schedule == later.schedule]
        if isinstance(later.answer, BaseException):
            for job in jobs:
                self._failed(job, later.answer, now)
            return []
        known = self._next if later.method == "next_after_ms" else self._latest
        known.keep(later.schedule, later.t_ms, later.answer)
        for job in jobs:
            self._works(job, now)
        return jobs

    def forget(self, name: str) -> None:
        """Forget a job."""
        self._suspended.pop(name, None)
        self._waiting.pop(name, None)
        self.failing.pop(name, None)

    def clear(self) -> None:
        """Forget every job."""
        self._suspended.clear()
        self._waiting.clear()
        self.failing.clear()
        self._ahead.clear()
        self._next.clear()
        self._latest.clear()

    def wakeups(self) -> Iterator[float]:
        """Yield the monotonic instants of the next trial, and of the end of the next wait."""
        for job in self._suspended.values():
            yield job.retry_at
            break
        for waiting in self._waiting.values():
            yield waiting.until
            break

    def _ask(
        self,
        job: JobSlots,
        now: Now,
        known: Known,
        t_ms: int,
        compute: Callable[[int], int | None],
    ) -> int | None:
        name, schedule = job.spec.name, job.spec.schedule
        found = None if self.is_suspended(name) else known.find(schedule, t_ms)
        if found is not None:
            return found[0]
        try:
            answer = compute(t_ms)
        except NotYet:
            self._suspended.pop(name, None)
            self._waiting.setdefault(name, Waiting(job, now.mono + ANSWER_WITHIN))
            return None
        except BaseException as error:
            self._failed(job, error, now)
            return None
        known.keep(schedule, t_ms, answer)
        if not self.is_suspended(name) or job.retry_at <= now.mono:
            self._works(job, now)
        return answer

    def _works(self, job: JobSlots, now: Now) -> None:
        if job.spec.name in self.failing:
            self.troubles.append((RunKey(job.spec.name, now.wall_ms), ""))
        job.retry_at = inf
        self.forget(job.spec.name)

    def _failed(self, job: JobSlots, error: BaseException, now: Now) -> None:
        name = job.spec.name
        if name not in self.failing:
            self.troubles.append((RunKey(name, now.wall_ms), clean(said(error))))
        job.retry_at = now.mono + SUSPENDED_FOR
        self.forget(name)
        self._suspended[name] = job
        self.failing[name] = None
