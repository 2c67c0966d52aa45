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

The parts are `_slots.py` (what is due), `_race.py` (what to claim, and what the answers
mean), `_watches.py` (the runs of others), `_held.py` (the attempts held here) and
`_lane.py` (back-off). `Core` is the one door: `handle` takes an input, lets the parts
move, and returns what the shell has to do. The shell sends two kinds of store calls, one
of each at a time: the *lane* for what is decided here (ends first, claims last), the
*keeper* for renewals and looks, which never wait behind the lane.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple, assert_never

from ._attempts import Attempts
from ._held import HeldRuns
from ._lane import Backoff
from ._race import Race
from ._slots import UNREACHABLE
from ._values import (
    Answered,
    Claim,
    Claims,
    Closed,
    Drained,
    Early,
    Ended,
    Failed,
    Finish,
    Look,
    Looked,
    Note,
    RecordManual,
    Release,
    Renew,
    Renewed,
    RunNow,
    Settled,
    Skip,
    Stop,
    Stopped,
    StoreDown,
    StoreUp,
    Tick,
    Unfinished,
)

if TYPE_CHECKING:
    from random import Random

    from ._held import Held
    from ._values import (
        Action,
        Input,
        JobSpec,
        KeeperCall,
        LaneCall,
        Lease,
        Now,
        Settings,
        StoreCall,
    )

BATCH = 512


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
        self._held = HeldRuns(settings)
        self._attempts = Attempts(settings, self._held, self._out)
        self._race = Race(settings, rng, self._held, self._out)
        self._specs: dict[str, JobSpec] = {}
        self._gate = Backoff(min(5.0, settings.heartbeat / 2), rng)
        self._renewal_gate = Backoff(settings.heartbeat / 10, rng)
        self._down = False
        self._lane: LaneCall | None = None
        self._keeper: KeeperCall | None = None
        self._unlisted: set[str] = set()  # jobs whose open runs have to be asked for
        self._renew_at = inf
        self._stop_at = inf  # finite once stopping
        self._spared: frozenset[Lease] = frozenset()
        self._drained = False
        self.stopped = False

    @property
    def stopping(self) -> bool:
        """Whether `Stop` has come."""
        return self._stop_at < inf

    def add(self, spec: JobSpec, now: Now) -> None:
        """Schedule a job, in place of one of the same name."""
        self._specs[spec.name] = spec
        if not self.stopping:
            self._race.slots.add(spec, now)
            if self._settings.leases:
                self._unlisted.add(spec.name)

    def remove(self, name: str) -> bool:
        """Stop scheduling and watching a job; a run in progress here goes on."""
        self._unlisted.discard(name)
        self._specs.pop(name, None)
        return self._race.remove(name)

    def view(self) -> CoreView:
        """Return what `health()` shows."""
        held = self._held
        return CoreView(held.live_count(), held.free_workers(), held.stuck_count())

    def handle(self, message: Input, now: Now) -> list[Action]:
        """Take one input; return what to do about it, in order."""
        if not self.stopped:
            self._take(message, now)
            self._settle(now)
        actions = self._out[:]
        self._out.clear()
        return actions

    def next_wakeup(self, now: Now) -> float | None:
        """Return the monotonic instant at which a `Tick` is needed, if nothing comes before."""
        if self.stopped:
            return None
        times = [*self._held.wakeups(), *self._stop_wakeups()]
        if self._keeper is None:
            times.append(max(self._renew_at, self._renewal_gate.until))
            times.append(max(self._race.watches.look_due(), self._gate.until))
        if self._lane is not None:
            times.extend(self._race.slots.wakeups(now))
        elif self._queued():
            times.append(self._gate.until)
        else:
            times.extend(max(at, self._gate.until) for at in self._race.wakeups(now))
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
                self._failed(call, error, now)
            case Ended():
                self._attempts.ended(message, now)
            case RunNow(key=key):
                spec = self._specs.get(key.job)
                self._attempts.run_now(message, spec, now, stopping=self.stopping)
            case Stop(timeout=timeout, spare=spare):
                self._stop(timeout, spare, now)
            case _:
                assert_never(message)

    def _answered(self, how: Answered, now: Now) -> None:
        call = how.call
        if isinstance(call, Renew | Look):
            self._keeper = None
        else:
            self._lane = None
        match call, how.answer:
            case Renew(), Renewed() as renewed:
                self._renew_at = how.sent + self._settings.heartbeat
                self._attempts.renewed(call, renewed, how, now)
            case Look(), Looked() as looked:
                self._race.see_all(looked.wrong, how)
                self._race.watches.looked(looked, how.received)
            case Claim(), Claims() as claims:
                for held in self._race.answered(call, claims, how, now):
                    self._won(held, now)
            case Skip(), Claims() as claims:
                self._skipped(call, claims, how)
            case Unfinished(), Looked() as looked:
                self._unlisted.difference_update(call.jobs)
                self._race.see_all(looked.wrong, how)
            case ((Finish() | Release()), Settled() as settled):
                self._attempts.settled(settled)
            case RecordManual(), Settled() as settled:
                self._attempts.recorded_manual(settled)
            case _:
                wrong = TypeError(f"the store answered {type(call).__name__} with the wrong type")
                self._failed(call, wrong, now)
                return
        self._reached(call, now)

    def _failed(self, call: StoreCall, error: BaseException, now: Now) -> None:
        if isinstance(call, Renew):
            self._keeper = None
            self._renewal_gate.failed(now.mono)
        else:
            self._gate.failed(now.mono)
            if isinstance(call, Look):
                self._keeper = None
                self._race.watches.look_failed(now.mono)
            else:
                self._lane = None
                if isinstance(call, Claim):
                    self._race.failed(call)
        failures = max(self._gate.failures, self._renewal_gate.failures)
        if failures > 1 and not self._down:
            self._down = True
            self._out.append(StoreDown(error))

    def _reached(self, call: StoreCall, now: Now) -> None:
        """A call was answered: an outage is over when no kind of call fails any more."""
        (self._renewal_gate if isinstance(call, Renew) else self._gate).answered()
        if self._down and not self._gate.failures and not self._renewal_gate.failures:
            self._down = False
            self._out.append(StoreUp())
            self._recover(now)

    def _recover(self, now: Now) -> None:
        """After an outage: what is open, and was the latest slot of each job decided?"""
        if self._settings.leases and not self.stopping:
            slots = self._race.slots
            self._unlisted.update(slots.jobs)
            for job in slots.jobs.values():
                slots.catch_up(job, now)

    def _won(self, held: Held, now: Now) -> None:
        """A win that came too late, or that nobody here waits for, is handed over."""
        removed = held.key.job not in self._specs
        if self.stopping or removed or now.mono >= held.deadline:
            self._attempts.give_back(held, now)

    def _stop(self, timeout: float, spare: frozenset[Lease], now: Now) -> None:
        self._spared |= spare
        if self.stopping:
            return
        self._stop_at = now.mono + timeout
        self._race.stop()
        self._unlisted.clear()
        self._attempts.stop(now)

    def _skipped(self, call: Skip, claims: Claims, how: Answered) -> None:
        for wish, answer in zip(call.wishes, claims.answers, strict=True):
            if isinstance(answer, Early):
                self._race.slots.skip_later(wish.key, how.received + answer.wait_ms / 1000)
                continue
            self._race.slots.missed.pop(wish.key, None)
            if isinstance(answer, Closed) and answer.run is not None:
                self._race.tell(answer.run)
        self._race.learn(claims, how)

    # --- after every input ---

    def _settle(self, now: Now) -> None:
        """Let time pass for every part, then send what has become due."""
        self._attempts.expire(now)
        if not self.stopping:
            self._unlisted |= self._attempts.bereft
            self._race.slots.collect(now, self._blame())
            self._tell_troubles()
            self._race.plan(now)
        self._attempts.bereft.clear()
        self._attempts.start_due(now)
        if self._keeper is None:
            self._send_keeper(now)
        if self._lane is None and self._gate.is_open(now.mono):
            self._lane = self._next_lane_call(now)
            if self._lane is not None:
                self._out.append(self._lane)
        if self.stopping:
            self._check_stopped(now)

    def _blame(self) -> str:
        """Return why a slot that is still pending has not been run."""
        if self._down:
            return UNREACHABLE
        return "not claimed in time" if self._held.free_workers() else "no free worker"

    def _tell_troubles(self) -> None:
        troubles = self._race.slots.troubles
        self._out.extend(Note("schedule", key, error) for key, error in troubles)
        troubles.clear()

    def _send_keeper(self, now: Now) -> None:
        leases = self._held.renewable() if self._settings.leases else ()
        if not leases:
            self._renew_at = inf
            self._renewal_gate.answered()
        elif self._renew_at == inf:
            self._renew_at = now.mono + self._settings.heartbeat
        elif self._renew_at <= now.mono and self._renewal_gate.is_open(now.mono):
            self._keeper = Renew(leases)
            self._out.append(self._keeper)
            return
        self._send_look(now)

    def _send_look(self, now: Now) -> None:
        """Look when a run of others is watched, and when no worker here could claim one."""
        watches = self._race.watches
        saturated = self._settings.leases and self._held.free_workers() == 0
        watches.plan(now.mono, needed=saturated and not self.stopping)
        if watches.look_due() <= now.mono and self._gate.is_open(now.mono):
            watches.look_sent(now.mono)
            jobs = tuple(self._race.slots.jobs) if saturated else watches.jobs()
            self._keeper = Look(jobs)
            self._out.append(self._keeper)

    def _queued(self) -> bool:
        attempts = self._attempts
        return bool(attempts.finishes or attempts.releases or attempts.manuals or self._unlisted)

    def _next_lane_call(self, now: Now) -> LaneCall | None:
        """Return the next call of the lane: ends first, claims last."""
        attempts = self._attempts
        if attempts.finishes:
            return Finish(tuple(attempts.finishes.values())[:BATCH])
        if attempts.releases:
            return Release(tuple(attempts.releases.values())[:BATCH])
        if attempts.manuals:
            return RecordManual(tuple(attempts.manuals.values())[:BATCH])
        if skips := self._race.slots.skips(now):
            return Skip(skips[:BATCH])
        if self._unlisted:
            return Unfinished(tuple(sorted(self._unlisted)))
        return self._race.next_claim(now, stopping=self.stopping)

    # --- stop ---

    def _stop_wakeups(self) -> list[float]:
        return [self._stop_at, self._stop_at + self._settings.heartbeat] if self.stopping else []

    def _check_stopped(self, now: Now) -> None:
        """Stopped is: every end recorded and every claim settled, or the timeout."""
        rest = [held for held in self._held if self._waited_for(held)]
        others = [held for held in rest if held.lease not in self._spared]
        calls = self._lane is not None or self._keeper is not None or self._race.undecided
        if now.mono >= self._stop_at:
            spared_too_long = now.mono >= self._stop_at + self._settings.heartbeat
            if len(others) == len(rest) or spared_too_long:
                self._attempts.leave(rest)
                self._end()
            else:
                self._drain()
        elif not others and not self._queued() and not calls:
            if rest:
                self._drain()
            else:
                self._end()

    def _waited_for(self, held: Held) -> bool:
        """A record that is not written, or a handler that may still obey."""
        return held.record in ("open", "settling") or (held.handler == "live" and not held.stuck)

    def _drain(self) -> None:
        if not self._drained:
            self._drained = True
            self._out.append(Drained())

    def _end(self) -> None:
        self._drain()
        self.stopped = True
        self._out.append(Stopped())
