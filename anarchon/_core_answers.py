"""What this instance learns from the answers to its claims, skips and looks.

Pure. A reply decides a slot, names who has it, or says to wait; and it names the job's
other open runs, each of which this instance becomes a backup of. What overtook the reply
on its way is not undone by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core_attempts import EVENTS
from ._core_backoff import Fleet
from ._core_missed import first_covered
from ._messages import (
    Emit,
    Note,
    Overdue,
)
from ._values import (
    Closed,
    Early,
    Held,
    Missing,
    OpenRun,
    RunKey,
    Suspect,
    Waiting,
    Won,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._core_held import Held as HeldRun
    from ._core_held import HeldRuns
    from ._core_slots import Slots
    from ._core_watches import Watch, Watches
    from ._messages import (
        Action,
        Alert,
        Answered,
        Claim,
        JobSpec,
        Now,
        Settings,
        Skip,
    )
    from ._runs import Run
    from ._values import (
        Alerts,
        Answer,
        Claims,
        Lease,
        Looked,
        Wish,
    )

MOST_NAMED = 10  # a reply names at most so many other open runs of a job
MOST_EARLY = 1.0  # a claim may come so long before its slot, by the store's clock
MOST_TOLD = 20  # so many slots of a job are remembered that were told of as closed here
LONGEST_WAIT = 60.0  # what the store finds early waits so long at most, or is asked for again


class Answers:
    """Takes in what the store says of runs; the slots and watches are the race's."""

    def __init__(
        self,
        settings: Settings,
        held: HeldRuns,
        slots: Slots,
        watches: Watches,
        out: list[Action],
    ) -> None:
        self._settings = settings
        self._held = held
        self._slots = slots
        self._watches = watches
        self._out = out
        self.fleet = Fleet(settings.token)
        self.specs: dict[RunKey, JobSpec] = {}  # of what is claimed, should a job be removed

    # --- calls ---

    def claimed(self, claim: Claim, claims: Claims, how: Answered, now: Now) -> list[HeldRun]:
        """Take in the answers to a claim; return the attempts that were won."""
        won: list[HeldRun] = []
        # Then it is the next round's turn to take over what was left, not the next look's.
        spent = 0 < claim.wins <= sum(isinstance(answer, Won) for answer in claims.answers)
        for wish, answer in zip(claim.wishes, claims.answers, strict=True):
            self._unblock(wish.key)
            if isinstance(answer, Won):
                won.append(self._won(wish, answer, claims.store_ms, how))
            elif (watch := self._refused(wish, answer, how, now)) is not None and not spent:
                watch.refuse()
            self.specs.pop(wish.key, None)
        self._learn(claims, how)
        self._forget_closed(claim, claims, how.sent)
        return won

    def skipped(self, call: Skip, claims: Claims, how: Answered, now: Now) -> None:
        """Take in the answers to a skip: the slot is missed, or somebody had it after all."""
        for wish, answer in zip(call.wishes, claims.answers, strict=True):
            if isinstance(answer, Early):
                wait = min(answer.wait_ms / 1000, LONGEST_WAIT)
                self._slots.missed.put_off(wish.key, how.received + wait)
                continue
            missed, end_ms = self._slots.missed.settled(wish.key), wish.key.slot_ms
            match answer:
                case Closed(run=run) if run is not None and run.status == "missed":
                    self._tell_once(run)
                    continue
                case Closed(status="missed", detail=detail):
                    end_ms = first_covered(end_ms, detail)
                case Held(run=other):
                    self.fleet.note(other.owner, how.received)
                    self._see(other, how)
                case Waiting(attempt=attempt):
                    self._see(OpenRun(wish.key, "waiting", attempt), how)
                case _:
                    pass
            if missed is not None:
                self._slots.not_missed(missed, end_ms, now)
        self._learn(claims, how)

    def seen(self, runs: Iterable[OpenRun], how: Answered) -> None:
        """Take in what a look, or a list of unfinished runs, shows."""
        for run in runs:
            self._see(run, how)

    def looked(self, jobs: Iterable[str], looked: Looked, how: Answered) -> None:
        """Take in a look; a dead run that blocked a slot may have come back to life.

        It is renewed again, or was handed over: that is for the store to judge the slot by.
        """
        ended = {run.key for run in looked.wrong if run.state == "running" and run.left_ms <= 0}
        for name in jobs:
            job = self._slots.jobs.get(name)
            blocked = job.pending.blocked_by if job and job.pending else None
            if blocked and blocked not in ended and self._watches.knows(blocked, how.sent):
                self._unblock(blocked)
        self.seen(looked.wrong, how)

    def alerted(self, call: Alert, alerts: Alerts) -> None:
        """Take in which of some late slots are to be told of here."""
        for key, tells in zip(call.keys, alerts.answers, strict=True):
            self._slots.expected.asked(key)
            job = self._slots.jobs.get(key.job)
            if tells and job is not None:
                self._out.append(Overdue(key, job.spec))

    def handed_over(self, leases: Iterable[Lease], mono: float) -> None:
        """Back up what was given up here as well; others may have it until the next look."""
        for lease in leases:
            if lease.key.job in self._slots.jobs:
                run = OpenRun(lease.key, "waiting", lease.attempt)
                self._watches.see(run, mono, agrees=True).refuse()

    # --- answers ---

    def _learn(self, claims: Claims, how: Answered) -> None:
        """Become a backup of the open runs named, and tell of the runs closed in passing."""
        self.seen(claims.open, how)
        for closed in claims.closed:
            key = RunKey(closed.job, closed.slot, closed.run_id if closed.manual else "")
            self._watches.forget(key)
            if not closed.manual or self._held.of(key) is None:  # else its own end tells of it
                self._tell(closed)

    def _unblock(self, key: RunKey) -> None:
        """The dead run that blocked a slot was answered for: ask for the slot again."""
        job = self._slots.jobs.get(key.job)
        if job and job.pending and job.pending.blocked_by == key:
            job.pending.blocked_by = None

    def _tell(self, run: Run) -> None:
        """Emit the event of a run that this instance decided."""
        self._out.append(Emit(EVENTS[run.status], run))

    def _won(self, wish: Wish, answer: Won, store_ms: int, how: Answered) -> HeldRun:
        spec = self.specs[wish.key]
        self._slots.settle(wish.key)
        self._watches.forget(wish.key)
        job = self._slots.jobs.get(wish.key.job)
        if job is not None:
            job.fence_seen = max(job.fence_seen, answer.fence)
        held = self._held.won(answer, spec, wish.reason, how.sent)
        # Won before its slot by the store's clock: the worker waits the rest. That is little,
        # or the clock stepped back since it was won first: it was due then.
        longest = LONGEST_WAIT if wish.wants == 1 else MOST_EARLY
        if wish.key.manual:  # whose slot is past, or the time of the call by the caller's clock
            longest = 0.0
        wait = min(longest, max(0, wish.key.slot_ms - store_ms) / 1000)
        held.start_at = how.received + wait
        return held

    def _refused(self, wish: Wish, answer: Answer, how: Answered, now: Now) -> Watch | None:
        """Somebody else has the run, or it is decided, or it has to wait.

        Returns the watch of a run that is as the wish says, and was not given all the same.
        """
        match answer:
            case Held(run=run):
                self.fleet.note(run.owner, how.received)
                watch = self._see(run, how)
                self._taken(wish)
                if watch is not None and (watch.wants, watch.beat) == (wish.wants, wish.beat):
                    return watch
            case Waiting(attempt=attempt):
                watch = self._see(OpenRun(wish.key, "waiting", attempt), how)
                self._taken(wish)
                if watch is not None and watch.wants == wish.wants:
                    return watch
            case Closed(run=run, by=by, status=status, detail=detail):
                self.fleet.note(by, how.received)
                self._slots.expected.ended(wish.key, status, detail)
                self._watches.forget(wish.key)
                if run is None:
                    self._taken(wish)
                else:
                    self._slots.settle(wish.key)
                    self._decided_here(run, wish)
            case Missing():
                self._watches.forget(wish.key)
                job = self._slots.jobs.get(wish.key.job)
                if job is not None and not wish.key.manual:
                    self._slots.catch_up(job, now)
            case _:
                self._put_off(wish, answer, how, now)
        return None

    def _put_off(self, wish: Wish, answer: Answer, how: Answered, now: Now) -> None:
        """The slot stays pending; if its next one fell due meanwhile, it was missed."""
        pending = self._slots.pending(wish.key)
        why = "not claimed in time"
        if isinstance(answer, Suspect):
            why = "blocked by a dead run"
            self._see(answer.other, how)
            if pending is not None:
                pending.blocked_by = answer.other.key
        elif isinstance(answer, Early):
            wait = min(answer.wait_ms / 1000, LONGEST_WAIT)
            if pending is not None:
                job = self._slots.jobs[wish.key.job]
                self._slots.line.stand_aside(job, pending, how.received + wait)
        if not wish.key.manual:
            self._slots.supersede(wish.key, now, why)

    def _decided_here(self, run: Run, wish: Wish) -> None:
        """Tell of what this very instance decided, unless it has told of that before.

        A result was told of when it was recorded, a skip when it was first answered. An
        attempt that ended without its owner's word is closed by a claim of the next one.
        """
        if run.status == "skipped" or wish.wants == run.attempt + 1:
            self._tell_once(run)

    def _tell_once(self, run: Run) -> None:
        """Tell of a run that a claim or a skip has closed, unless it was told of before."""
        job = self._slots.jobs.get(run.job)
        if job is not None:
            what = (run.status, run.slot)
            if what in job.told:
                return
            job.told = (*job.told[1 - MOST_TOLD :], what)
        self._tell(run)

    def _taken(self, wish: Wish) -> None:
        """Somebody else has the run."""
        if self._slots.settle(wish.key) and wish.reason == "scheduled":
            self._out.append(Note("taken", wish.key))

    def _see(self, run: OpenRun, how: Answered) -> Watch | None:
        """Become a backup, unless the attempt is held here or leases don't exist."""
        if not self._settings.leases or run.key.job not in self._slots.jobs:
            return None
        if run.key.manual and run.state == "running":  # nobody follows it
            self._watches.forget(run.key)
            return None
        held = self._held.of(run.key)
        if held is not None and (run.mine or run.attempt <= held.lease.attempt):
            return None  # ours, or from before it became ours
        return self._watches.see(run, how.received, agrees=how.agrees, store_ms=how.answer.store_ms)

    def _forget_closed(self, claim: Claim, claims: Claims, sent: float) -> None:
        """A reply names a job's other open runs: what it doesn't name has ended."""
        named: dict[str, list[RunKey]] = {wish.key.job: [wish.key] for wish in claim.wishes}
        for run in claims.open:
            if run.key.job in named:  # else it is ordered, and of that job nothing else is named
                named[run.key.job].append(run.key)
        for answer in claims.answers:
            if isinstance(answer, Suspect):
                named[answer.key.job].append(answer.other.key)
        for job, keys in named.items():
            if len(keys) <= MOST_NAMED:
                self._watches.forget_job(job, except_for=keys, known_by=sent)
