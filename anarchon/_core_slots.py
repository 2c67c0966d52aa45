"""The slots of this instance's jobs: which is next, which is due and undecided.

Pure. A job has at most one *pending* slot: the latest that is due and that the store has
not been heard to have settled. When the next one falls due, the older slot leaves and is
closed as missed. Slots are computed from the slot or from now, never accumulated, and
only the latest due slot of a job is kept, so that a suspend or a clock jump costs the
same however many slots it skipped. There may be very many jobs, so that nothing that
happens often looks at all of them: what is due next, and what is to be offered next, are
at the top of heaps whose entries may be out of date.

The slot after the next one is computed ahead, when there is time: nothing has to be computed
between a tick and its claims, however many jobs are due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core_due import NextSlots
from ._core_expected import Expectations
from ._core_jobs import JobSlots, Pending
from ._core_line import Line
from ._core_missed import Misses
from ._core_schedules import Schedules
from ._values import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from ._core_missed import Missed
    from ._messages import (
        JobSpec,
        Later,
        Now,
    )
    from ._values import (
        Reason,
    )

# A wall clock that stepped back by more than this makes every next slot doubtful.
STEP_BACK_MS = 1000
# A record of several slots looks for its place before so many that somebody else had. Each is
# a question to the store, which goes with those of all other jobs.
MOST_TRIES = 32


class Slots:
    """The slots of all jobs.

    `recover`: a job that is new here has its latest slot caught up, and the store can be asked
    which slots nobody has finished. `late_ms`: a slot
    found later than this is a catch-up.
    """

    def __init__(self, rng: Random, *, late_ms: int, recover: bool) -> None:
        self._rng = rng
        self._late_ms = late_ms
        self._recover = recover
        self.upcoming = NextSlots()
        self._last_wall_ms: int | None = None
        self.jobs: dict[str, JobSlots] = {}
        self.line = Line()
        self.waiting = self.line.waiting
        self.missed = Misses()
        self.expected = Expectations(on=recover)
        self.schedules = Schedules()
        self.in_flight: frozenset[RunKey] = frozenset()  # claimed, and not answered yet

    # --- jobs ---

    def add(self, spec: JobSpec, now: Now) -> None:
        """Add a job, or put a new definition in the place of the old one."""
        old = self.jobs.get(spec.name)
        self.remove(spec.name)
        job = self.jobs[spec.name] = JobSlots(spec, self._rng.random())
        if old is not None:
            job.fence_seen, job.told = old.fence_seen, old.told
        self._plan_from(job, now)
        if self._recover:
            self.catch_up(job, now)

    def remove(self, name: str) -> bool:
        """Stop scheduling a job."""
        job = self.jobs.pop(name, None)
        if job is None:
            return False
        self.line.drop(job)
        job.next_ms = None
        self.schedules.forget(name)
        self.missed.remove(name)
        self.expected.forget(name)
        return True

    def catch_up(self, job: JobSlots, now: Now) -> None:
        """Make the latest slot pending if it was due less than `catch_up` ago."""
        if job.pending is not None:
            return
        slot = self.schedules.latest(job, now.wall_ms, now)
        job.catches_up = not self.schedules.has_answered(job.spec.name)
        if slot is not None and now.wall_ms - slot < job.spec.terms.catch_up_ms:
            self._set_pending(job, slot, "catch-up")

    def settle(self, key: RunKey) -> bool:
        """The store has decided this slot, or somebody runs it; say if it was pending."""
        job = self.jobs.get(key.job)
        if job is None or job.pending is None or job.pending.key != key:
            return False
        self.line.drop(job)
        return True

    def pending(self, key: RunKey) -> Pending | None:
        """Return the pending slot of this identity."""
        job = self.jobs.get(key.job)
        return job.pending if job and job.pending and job.pending.key == key else None

    def clear(self) -> None:
        """Forget every slot: the scheduler stops."""
        self.jobs.clear()
        self.upcoming.clear()
        self.line.clear()
        self.missed.clear()
        self.expected.clear()
        self.schedules.clear()

    # --- time ---

    def collect(self, now: Now, blame: str) -> None:
        """Make due slots pending; `blame` says why an older one was not run till now."""
        if self._last_wall_ms is not None and now.wall_ms < self._last_wall_ms - STEP_BACK_MS:
            self._stepped_back(now)
        self._last_wall_ms = now.wall_ms
        self.schedules.give_up_waiting(now)
        while (job := self.schedules.next_trial(now)) is not None:
            self._ask_again(job, now)
        self.line.collect(now.mono)
        while (due := self.upcoming.pop_due(now.wall_ms)) is not None:
            self._due(due[1], due[0], now, blame)
        self.missed.collect(now)
        self.expected.collect(now)

    def schedule_answered(self, later: Later, now: Now) -> None:
        """Go on with the jobs that have waited for an answer."""
        for job in self.schedules.heard(later, now):
            self._ask_again(job, now)

    def supersede(self, key: RunKey, now: Now, blame: str) -> None:
        """A slot whose claim was under way when the next fell due was not run: close it."""
        job = self.jobs.get(key.job)
        if job is None or self.pending(key) is not None:
            return
        following = self.schedules.next_after(job, key.slot_ms, now)
        if following is not None:
            self.missed.add(key.job, key.slot_ms, key.slot_ms, following, blame)

    def not_missed(self, missed: Missed, end_ms: int, now: Now) -> None:
        """Somebody has the slots from `end_ms` on; the record covers those before.

        Whoever came back sooner, or started meanwhile, has the latest ones. One who was alone
        in having no answer, or in being suspended, has none of them, so that the way back ends
        somewhere.
        """
        if missed.tries < MOST_TRIES:
            self._miss_before(missed, end_ms, now)

    def wakeups(self, now: Now) -> Iterator[float]:
        """Yield every monotonic instant at which something here falls due."""
        if (first := self.upcoming.first()) is not None:
            yield now.mono + (first[0] - now.wall_ms) / 1000
        yield from self.schedules.wakeups()
        yield from self.missed.wakeups(now)
        yield from self.expected.wakeups(now)
        yield from self.line.wakeups()

    # --- inside ---

    def _miss_before(self, missed: Missed, end_ms: int, now: Now) -> None:
        """Let a record end before this slot, if anything is left of what it stands for."""
        job = self.jobs[missed.wish.key.job]
        last = self.schedules.latest(job, end_ms - 1, now)
        if last is not None and last >= missed.first_ms:
            name, tries = job.spec.name, missed.tries + 1
            self.missed.add(name, missed.first_ms, last, end_ms, missed.why, tries)

    def _set_pending(self, job: JobSlots, slot_ms: int, reason: Reason) -> None:
        pending = job.pending = Pending(RunKey(job.spec.name, slot_ms), reason)
        self.line.enter(job, pending)
        self.expected.expect(job.spec, slot_ms)

    def _due(self, job: JobSlots, slot_ms: int, now: Now, blame: str) -> None:
        """Slot `slot_ms` is due; when more have passed, only the latest counts."""
        missed: tuple[int, int] | None = None  # the first and the last
        if job.pending is not None and job.pending.key not in self.in_flight:
            missed = (job.pending.key.slot_ms, job.pending.key.slot_ms)
        following = self.schedules.following(job, slot_ms, now)
        if following is not None and following <= now.wall_ms:
            latest = self.schedules.latest(job, now.wall_ms, now)
            if latest is not None and latest > slot_ms:
                first_ms = slot_ms if missed is None else missed[0]
                previous = self.schedules.latest(job, latest - 1, now)
                missed = (first_ms, slot_ms if previous is None else previous)
                slot_ms = latest
            following = self.schedules.next_after(job, now.wall_ms, now)
        if missed is not None:
            self.missed.add(job.spec.name, *missed, slot_ms, blame)
        self.line.drop(job)
        self._plan(job, following)
        late_ms = now.wall_ms - slot_ms
        if late_ms <= self._late_ms:
            self._set_pending(job, slot_ms, "scheduled")
        elif self._recover and late_ms < job.spec.terms.catch_up_ms:
            self._set_pending(job, slot_ms, "catch-up")
        elif following is not None:
            self.missed.add(job.spec.name, slot_ms, slot_ms, following, "too late")
            self.expected.expect(job.spec, slot_ms)

    def _ask_again(self, job: JobSlots, now: Now) -> None:
        known_ms = job.next_ms  # it stays, whatever the schedule says now
        if known_ms is None:
            self._plan_from(job, now)
        if job.catches_up and (known_ms is not None or self.schedules.has_answered(job.spec.name)):
            self.catch_up(job, now)
        if known_ms is not None:
            job.ahead = None
            self.schedules.following(job, known_ms, now)

    def _plan_from(self, job: JobSlots, now: Now) -> None:
        self._plan(job, self.schedules.next_after(job, now.wall_ms, now))

    def _plan(self, job: JobSlots, due_ms: int | None) -> None:
        if due_ms is None:
            job.next_ms = None
        elif due_ms != job.next_ms:
            self.upcoming.push(job, due_ms, jobs=len(self.jobs))
            self.schedules.will_ask(job)

    def _stepped_back(self, now: Now) -> None:
        """Compute every slot anew: one found while the clock was ahead lies in the future."""
        for job in self.jobs.values():
            if job.pending is not None and job.pending.key.slot_ms > now.wall_ms:
                self.line.drop(job)
            if not self.schedules.is_suspended(job.spec.name):
                self._plan_from(job, now)
                if self._recover:  # it may have been passed over while the clock was ahead
                    self.catch_up(job, now)
        for missed in self.missed.forget_after(now.wall_ms):
            self._miss_before(missed, self._end_of_misses(missed, now), now)

    def _end_of_misses(self, missed: Missed, now: Now) -> int:
        """Return the first slot that was not missed by now: a pending one, or one to come."""
        job = self.jobs[missed.wish.key.job]
        if job.pending is not None:
            return job.pending.key.slot_ms
        return now.wall_ms if job.next_ms is None else job.next_ms
