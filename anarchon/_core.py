"""The decisions of one instance: inputs in, actions out, no I/O, threads or clock.

Theory of operation
-------------------
Many instances have the same jobs and compute the same slots. For each due slot they
race: each sends one *claim* after a short random delay, and the store, which judges
claims one after another, lets one win. The winner holds a *lease*, which it renews once
per *heartbeat*; the others become *backups*, which look at the store once per heartbeat.
When the lease ends, or when the winner hands the run over, a backup claims the next
*attempt*, naming what it saw of the last one, so that an old copy of a claim can never
win a later attempt.

Nobody can tell a dead runner from a slow one, so a runner proves to itself that it still
holds its lease: it counts the lease from when the last good renewal was *sent*, less a
margin, and when its monotonic clock passes that deadline it gives the attempt up for good
before any other instance may start the next one. What its handler returns afterwards
still counts if nobody took over: a result is a fact.

A store call that isn't answered may have had its effect. So every call can be repeated:
a finish until it is answered, a claim exactly as it was before any other claim. An
instance holds only what the store said it won.

The parts are `_core_slots.py` and `_core_missed.py` (what is due, and what nobody ran),
`_core_race.py` (what to claim), `_core_rounds.py` (when), `_core_answers.py` (what the
answers mean), `_core_watches.py` (the runs of others), `_core_held.py` and
`_core_attempts.py` (the attempts held here), `_core_calls.py` (what is sent to the store),
`_core_stop.py` (when all is over) and `_core_backoff.py` (back-off). `Core` is the one door:
`handle` takes an input, lets the parts move, and returns what the shell has to do. The shell
sends two kinds of store calls, one of each at a time: the *lane* for what is decided here
(ends first, claims last), the *keeper* for renewals and looks, which never wait behind it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, assert_never

from ._core_attempts import Attempts
from ._core_calls import Calls
from ._core_held import HeldRuns
from ._core_missed import UNREACHABLE
from ._core_race import Race
from ._core_stop import Stopping
from ._messages import (
    Alert,
    Answered,
    Claim,
    Completing,
    Ended,
    Failed,
    Finish,
    Granted,
    Look,
    Ordered,
    RecordManual,
    Release,
    Renew,
    RunNow,
    Skip,
    Stop,
    StoreUp,
    Tick,
    Unfinished,
)
from ._named import NamedTuple
from ._values import (
    Alerts,
    Claims,
    Looked,
    Renewed,
    Settled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from ._messages import (
        Action,
        Input,
        JobSpec,
        Later,
        Now,
        Settings,
    )


class CoreView(NamedTuple):
    """How many handlers run here, how many workers are free, how many handlers are stuck."""

    running: int
    free_workers: int
    stuck: int


class Core:
    """One instance's decisions. Used from one thread."""

    def __init__(self, settings: Settings, rng: Random) -> None:
        self._settings = settings
        self._out: list[Action] = []
        self._specs: dict[str, JobSpec] = {}
        self._held = HeldRuns(settings)
        # Says whether a transaction of the handler's may decide how an attempt ends, from now
        # on. It may also be called after `stopped`, on whatever thread: nothing moves then.
        self.complete = self._held.complete
        self._attempts = Attempts(settings, self._held, self._out)
        self._race = Race(settings, rng, self._held, self._out)
        # Returns the next slot of all jobs, and the one after it of that job if it is known.
        self.next_due = self._race.slots.upcoming.soonest
        self._calls = Calls(settings, self._held, self._attempts, self._race, rng, self._out)
        self._stopping = Stopping(settings, self._held, self._attempts, self._out)

    @property
    def stopping(self) -> bool:
        """Whether `Stop` has come."""
        return self._stopping.asked

    @property
    def stopped(self) -> bool:
        """Whether all is over: `Stopped` has been said."""
        return self._stopping.done

    def add(self, spec: JobSpec, now: Now) -> None:
        """Schedule a job, in place of one of the same name."""
        self._specs[spec.name] = spec
        if not self.stopping:
            self._race.slots.add(spec, now)
            self._catch_up((), now)
            self._calls.list_jobs([spec.name])

    def remove(self, name: str) -> bool:
        """Stop scheduling and watching a job; a run in progress here goes on."""
        self._calls.listed([name])
        self._specs.pop(name, None)
        return self._race.remove(name)

    def view(self) -> CoreView:
        """Return what `health()` shows."""
        held = self._held
        return CoreView(held.live_count(), held.free_workers(), held.stuck_count())

    def suspended(self) -> tuple[str, ...]:
        """Return the jobs whose schedules fail."""
        return tuple(self._race.slots.schedules.failing)

    def handle(self, message: Input, now: Now) -> list[Action]:
        """Take one input; return what to do about it, in order."""
        if not self.stopped:
            self._take(message, now)
            self._settle(now)
        actions = self._out[:]
        self._out.clear()
        return actions

    @property
    def is_behind(self) -> bool:
        """Whether `look_ahead` has something to do."""
        return self._race.slots.schedules.is_behind

    def look_ahead(self, now: Now) -> list[Action]:
        """Compute a part of what the next tick needs, when nothing else is to be done.

        Whether it is called makes no difference but of time.
        """
        self._race.slots.schedules.look_ahead(now)
        self._out.extend(self._race.slots.schedules.take_notes())
        actions = self._out[:]
        self._out.clear()
        return actions

    def schedule_answered(self, later: Later, now: Now) -> None:
        """A schedule that said `NotYet` has answered; a `Tick` follows."""
        if not self.stopping:
            self._race.slots.schedule_answered(later, now)

    def next_wakeup(self, now: Now) -> float | None:
        """Return the monotonic instant at which a `Tick` is needed, if nothing comes before.

        `now` is that of the last input: what was due by then has been done.
        """
        if self.stopped:
            return None
        times = [*self._held.wakeups(), *self._stopping.wakeups(), *self._calls.wakeups(now)]
        times.append(self._attempts.put_off.until)
        soonest = min((at for at in times if at > now.mono), default=inf)
        return None if soonest == inf else soonest

    # --- inputs ---

    def _take(self, message: Input, now: Now) -> None:
        match message:
            case Tick():
                pass
            case Answered():
                self._answered(message, now)
            case Failed(call=call, error=error):
                self._calls.failed(call, error, now)
            case Ended():
                self._attempts.ended(message, now)
            case Completing(lease=lease, reply=reply):
                self._out.append(Granted(reply, self.complete(lease)))
            case RunNow(key=key):
                spec = self._specs.get(key.job)
                self._attempts.run_now(message, spec, now, stopping=self.stopping)
            case Ordered(job=name):
                if name in self._specs and not self.stopping:
                    self._calls.list_jobs([name])
            case Stop():
                self._stop(message, now)
            case _:
                assert_never(message)

    def _answered(self, how: Answered, now: Now) -> None:
        call = how.call
        self._calls.landed(call)
        match call, how.answer:
            case Renew(), Renewed() as renewed:
                self._calls.renewed(how.sent)
                self._attempts.renewed(call, renewed, how, now)
            case Look(), Looked() as looked:
                self._race.watches.looked(looked, how.sent, how.received)
                self._race.answers.looked(call.jobs, looked, how)
            case Claim(), Claims() as claims:
                self._claimed(call, claims, how, now)
            case Skip(), Claims() as claims:
                self._race.answers.skipped(call, claims, how, now)
            case Unfinished(), Looked() as looked:
                self._race.answers.seen(looked.wrong, how)
            case ((Finish() | Release()), Settled() as settled):
                self._attempts.settled(settled, now)
            case RecordManual(), Settled() as settled:
                self._attempts.recorded_manual(settled)
            case Alert(), Alerts() as alerts:
                self._race.answers.alerted(call, alerts)
            case _:
                wrong = TypeError(f"the store answered {type(call).__name__} with the wrong type")
                self._calls.failed(call, wrong, now)
                return
        if self._calls.ends_outage(call):
            self._out.append(StoreUp())
            self._recover(now)

    def _claimed(self, call: Claim, claims: Claims, how: Answered, now: Now) -> None:
        """Hand over what was won and nobody here waits for."""
        for held in self._race.answered(call, claims, how, now):
            if self.stopping or held.key.job not in self._specs:
                self._attempts.give_back(held, now)

    def _recover(self, now: Now) -> None:
        """After an outage: what is open, and was the latest slot of each job decided?"""
        if self._settings.leases:
            jobs = self._race.slots.jobs
            self._catch_up(jobs, now)
            self._calls.list_jobs(jobs)

    def _catch_up(self, names: Iterable[str], now: Now) -> None:
        """Ask for the latest slots of these jobs; what is being run here is asked for by none."""
        slots = self._race.slots
        for name in names:
            if name in slots.jobs:
                slots.catch_up(slots.jobs[name], now)
        for held in self._held:
            slots.settle(held.key)

    def _stop(self, stop: Stop, now: Now) -> None:
        self._stopping.begin(stop, now)
        self._race.stop()
        self._calls.stop()
        self._attempts.stop(now)

    # --- after every input ---

    def _settle(self, now: Now) -> None:
        """Let time pass for every part, then send what has become due."""
        self._attempts.expire(now)
        if self._calls.outage.on:
            self._attempts.tell_results()
        if not self.stopping:
            asked = self._attempts.bereft | self._attempts.sought
            self._calls.list_jobs(sorted(name for name in asked if name in self._specs))
            if self._held.orphaned:
                self._catch_up(sorted(self._held.orphaned), now)
            for key, status in self._attempts.over:
                self._race.slots.expected.ended(key, status)
            self._race.answers.handed_over(self._attempts.handed_over, now.mono)
            self._race.slots.collect(now, self._blame())
            self._out.extend(self._race.slots.schedules.take_notes())
            self._race.plan(now)
        self._attempts.bereft.clear()
        self._attempts.sought.clear()
        self._attempts.over.clear()
        self._held.orphaned.clear()
        self._attempts.handed_over.clear()
        self._attempts.start_due(now)
        self._calls.send(now, stopping=self.stopping)
        if self.stopping:
            calls = self._calls
            self._stopping.check(now, settled=calls.settled, hopeless=calls.hopeless)

    def _blame(self) -> str:
        """Return why a slot that is still pending has not been run."""
        if self._calls.outage.on:
            return UNREACHABLE
        return "not claimed in time" if self._held.free_workers() else "no free worker"
