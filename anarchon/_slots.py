"""The slots of this instance's jobs: which is next, which is due and undecided.

Pure. A job has at most one *pending* slot: the latest that is due and that the store has
not been heard to have settled. When the next one falls due, the older slot leaves and is
closed as missed. Slots are computed from the slot or from now, never accumulated, and
only the latest due slot of a job is kept, so that a suspend or a clock jump costs the
same however many slots it skipped.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from ._values import RunKey, SkipWish, instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from ._values import JobSpec, Now, Reason

# A schedule that failed is asked again after this many seconds.
SUSPENDED_FOR = 60.0
# A wall clock that stepped back by more than this makes every next slot doubtful.
STEP_BACK_MS = 1000
# Why slots passed while the store gave no answer; their records are merged into one.
UNREACHABLE = "store unreachable"


class Pending:
    """A slot that is due and not settled."""

    __slots__ = ("blocked_by", "key", "not_before", "reason")

    def __init__(self, key: RunKey, reason: Reason) -> None:
        self.key = key
        self.reason = reason
        self.not_before = -inf  # the store said that it is early
        self.blocked_by: RunKey | None = None  # a dead run must be closed first


class Missed(NamedTuple):
    """A slot to close as missed; the store may have said that it is too early for that."""

    wish: SkipWish
    first_ms: int  # the record stands for every slot from here on
    not_before: float = -inf


class JobSlots:
    """One job's slots."""

    __slots__ = ("fence_seen", "next_ms", "order", "pending", "retry_at", "spec")

    def __init__(self, spec: JobSpec, order: float) -> None:
        self.spec = spec
        self.order = order  # this instance's own, so that a fleet doesn't fight for the same
        self.next_ms: int | None = None
        self.pending: Pending | None = None
        self.retry_at = inf  # when a schedule that failed is asked again
        self.fence_seen = 0

    @property
    def period(self) -> float:
        """Seconds from the pending slot to the next."""
        if self.pending is None or self.next_ms is None:
            return inf
        return (self.next_ms - self.pending.key.slot_ms) / 1000


class Slots:
    """The slots of all jobs.

    `recover`: a job that is new here has its latest slot caught up. `late_ms`: a slot
    found later than this is a catch-up.
    """

    def __init__(self, rng: Random, *, late_ms: int, recover: bool) -> None:
        self._rng = rng
        self._late_ms = late_ms
        self._recover = recover
        self._heap: list[tuple[int, int, JobSlots]] = []
        self._pushed = 0  # breaks ties in the heap, so that jobs are never compared
        self._suspended: dict[str, JobSlots] = {}
        self._last_wall_ms: int | None = None
        self.jobs: dict[str, JobSlots] = {}
        self.waiting: dict[str, JobSlots] = {}  # the jobs that have a pending slot
        self.missed: dict[RunKey, Missed] = {}  # to be closed once the next slot is due
        self.in_flight: frozenset[RunKey] = frozenset()  # claimed, and not answered yet
        self.troubles: list[tuple[RunKey, str]] = []  # schedules that failed, once each

    # --- jobs ---

    def add(self, spec: JobSpec, now: Now) -> JobSlots:
        """Add a job, or put a new definition in the place of the old one."""
        self.remove(spec.name)
        job = self.jobs[spec.name] = JobSlots(spec, self._rng.random())
        self._plan_from(job, now)
        if self._recover:
            self.catch_up(job, now)
        return job

    def remove(self, name: str) -> bool:
        """Stop scheduling a job."""
        self.waiting.pop(name, None)
        self._suspended.pop(name, None)
        for key in [key for key in self.missed if key.job == name]:
            del self.missed[key]
        return self.jobs.pop(name, None) is not None

    def catch_up(self, job: JobSlots, now: Now) -> None:
        """Make the latest slot pending if it was due less than `catch_up` ago."""
        if job.pending is not None:
            return
        slot = self._ask(job, now, lambda: job.spec.schedule.latest_ms(now.wall_ms))
        if slot is not None and now.wall_ms - slot < job.spec.terms.catch_up_ms:
            self._set_pending(job, slot, "catch-up")

    def settle(self, key: RunKey) -> bool:
        """The store has decided this slot, or somebody runs it; say if it was pending."""
        job = self.jobs.get(key.job)
        if job is None or job.pending is None or job.pending.key != key:
            return False
        job.pending = None
        self.waiting.pop(key.job, None)
        return True

    def pending(self, key: RunKey) -> Pending | None:
        """Return the pending slot of this identity."""
        job = self.jobs.get(key.job)
        return job.pending if job and job.pending and job.pending.key == key else None

    def clear(self) -> None:
        """Forget every slot: the scheduler stops."""
        self.jobs.clear()
        self.waiting.clear()
        self.missed.clear()
        self._heap.clear()
        self._suspended.clear()

    # --- time ---

    def collect(self, now: Now, blame: str) -> None:
        """Make due slots pending; `blame` says why an older one was not run till now."""
        if self._last_wall_ms is not None and now.wall_ms < self._last_wall_ms - STEP_BACK_MS:
            self._stepped_back(now)
        self._last_wall_ms = now.wall_ms
        for job in [job for job in self._suspended.values() if job.retry_at <= now.mono]:
            self._plan_from(job, now)
        while self._heap and self._heap[0][0] <= now.wall_ms:
            due_ms, _, job = heapq.heappop(self._heap)
            if self.jobs.get(job.spec.name) is job and job.next_ms == due_ms:
                self._due(job, due_ms, now, blame)

    def eligible(self, now: Now) -> list[JobSlots]:
        """Return the jobs whose pending slot may be claimed now."""
        return [
            job
            for job in self.waiting.values()
            if job.pending is not None
            and job.pending.not_before <= now.mono
            and job.pending.blocked_by is None
        ]

    def skips(self, now: Now) -> tuple[SkipWish, ...]:
        """Return the slots to close as missed, whose next slot is due."""
        return tuple(
            missed.wish
            for missed in self.missed.values()
            if missed.wish.next_ms <= now.wall_ms and missed.not_before <= now.mono
        )

    def skip_later(self, key: RunKey, mono: float) -> None:
        """The store finds it too early to close this slot."""
        if key in self.missed:
            self.missed[key] = self.missed[key]._replace(not_before=mono)

    def supersede(self, key: RunKey, now: Now, blame: str) -> None:
        """A slot whose claim was under way when the next fell due was not run: close it."""
        job = self.jobs.get(key.job)
        if job is None or self.pending(key) is not None:
            return
        following = self._ask(job, now, lambda: job.spec.schedule.next_after_ms(key.slot_ms))
        if following is not None:
            self._miss(job, key.slot_ms, key.slot_ms, following, blame)

    def wakeups(self, now: Now) -> Iterator[float]:
        """Yield every monotonic instant at which something here falls due."""
        while self._heap:
            due_ms, _, job = self._heap[0]
            if self.jobs.get(job.spec.name) is job and job.next_ms == due_ms:
                yield now.mono + (due_ms - now.wall_ms) / 1000
                break
            heapq.heappop(self._heap)
        for job in self._suspended.values():
            yield job.retry_at
        for missed in self.missed.values():
            yield max(missed.not_before, now.mono + (missed.wish.next_ms - now.wall_ms) / 1000)
        for job in self.waiting.values():
            if job.pending is not None and job.pending.blocked_by is None:
                yield job.pending.not_before

    # --- inside ---

    def _set_pending(self, job: JobSlots, slot_ms: int, reason: Reason) -> None:
        job.pending = Pending(RunKey(job.spec.name, slot_ms), reason)
        self.waiting[job.spec.name] = job

    def _due(self, job: JobSlots, slot_ms: int, now: Now, blame: str) -> None:
        """Slot `slot_ms` is due; when more have passed, only the latest counts."""
        undecided = job.pending is not None and job.pending.key not in self.in_flight
        first_missed = job.pending.key.slot_ms if job.pending and undecided else None
        last_missed = first_missed
        following = self._ask(job, now, lambda: job.spec.schedule.next_after_ms(slot_ms))
        if following is not None and following <= now.wall_ms:
            latest = self._ask(job, now, lambda: job.spec.schedule.latest_ms(now.wall_ms))
            if latest is not None and latest > slot_ms:
                first_missed = slot_ms if first_missed is None else first_missed
                previous = self._ask(job, now, lambda: job.spec.schedule.latest_ms(latest - 1))
                last_missed = slot_ms if previous is None else previous
                slot_ms = latest
            following = self._ask(job, now, lambda: job.spec.schedule.next_after_ms(now.wall_ms))
        if first_missed is not None and last_missed is not None:
            self._miss(job, first_missed, last_missed, slot_ms, blame)
        job.pending = None
        self.waiting.pop(job.spec.name, None)
        late_ms = now.wall_ms - slot_ms
        if late_ms <= self._late_ms:
            self._set_pending(job, slot_ms, "scheduled")
        elif self._recover and late_ms < job.spec.terms.catch_up_ms:
            self._set_pending(job, slot_ms, "catch-up")
        elif following is not None:
            self._miss(job, slot_ms, slot_ms, following, "too late")
        self._push(job, following)

    def _miss(self, job: JobSlots, first: int, last: int, next_ms: int, why: str) -> None:
        """One record stands for all slots from `first` to `last`."""
        if why == UNREACHABLE:
            # Nothing could be written in between: one record covers the whole outage.
            for key in [key for key in self.missed if key.job == job.spec.name]:
                first = min(first, self.missed.pop(key).first_ms)
        detail = why
        if first != last:
            since = instant(first).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            detail = f"{why}; slots since {since}"
        key = RunKey(job.spec.name, last)
        self.missed[key] = Missed(SkipWish(key, next_ms, detail), first)

    def _plan_from(self, job: JobSlots, now: Now) -> None:
        following = self._ask(job, now, lambda: job.spec.schedule.next_after_ms(now.wall_ms))
        self._push(job, following)

    def _push(self, job: JobSlots, due_ms: int | None) -> None:
        job.next_ms = due_ms
        if due_ms is not None:
            self._pushed += 1
            heapq.heappush(self._heap, (due_ms, self._pushed, job))

    def _stepped_back(self, now: Now) -> None:
        """Compute every next slot anew: one found while the clock was ahead lies too late."""
        for job in self.jobs.values():
            if job.next_ms is not None:
                self._plan_from(job, now)

    def _ask(self, job: JobSlots, now: Now, compute: Callable[[], int | None]) -> int | None:
        """Ask a schedule; one that fails suspends its own job and is told about once."""
        try:
            answer = compute()
        except BaseException as error:  # a schedule is user code: it may raise anything
            if job.retry_at == inf:
                self.troubles.append((RunKey(job.spec.name, now.wall_ms), _named(error)))
            job.retry_at = now.mono + SUSPENDED_FOR
            self._suspended[job.spec.name] = job
            return None
        if job.retry_at <= now.mono:
            job.retry_at = inf
            self._suspended.pop(job.spec.name, None)
        return answer


def _named(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its str() is user code as well
        return type(error).__name__
