"""One virtual instance: a real `Core` and `StoreClock`, and a shell of events around them.

It does what the threads of the engine do: the scheduler takes inputs and wake-ups, the lane
and the keeper ask the store one question at a time each, handlers run for as long as their
`Plan` says. A frozen process does nothing until it wakes; what arrived meanwhile is then
dealt with in its order.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from anarchon._clock import StoreClock
from anarchon._core import Core
from anarchon._messages import (
    Abort,
    Answered,
    Claim,
    Ended,
    Failed,
    Finish,
    Look,
    Now,
    Ordered,
    RecordManual,
    Release,
    Renew,
    RunNow,
    Skip,
    StartRun,
    Stop,
    Stopped,
    Tick,
    Unfinished,
)
from anarchon._testing_claim_only import ClaimOnly
from anarchon._threads_lanes import Lane
from anarchon._values import Owner

from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._clock import Basis
    from anarchon._messages import (
        Action,
        Input,
        JobSpec,
        Settings,
        StoreCall,
    )
    from anarchon._threads_lanes import StoreAnswer
    from anarchon._values import Lease, Pace, RunKey

    from .fleet import Fleet
    from .world import Host

LOST_AFTER = 60.0  # without leases: longer than any handler takes
LONGEST_WAIT = 60.0  # the engine looks at the wall clock at least so often
CALLS = (Claim, Finish, Release, Skip, Unfinished, RecordManual, Renew, Look)


class Plan(NamedTuple):
    """What a handler will do: for how long it works, how it ends, how it takes an abort.

    `on_abort` is ``"obey"`` (raise `Aborted`), ``"return"``, ``"raise"`` (an error of its own)
    or ``"ignore"``, after `reaction` seconds.
    """

    seconds: float
    raises: bool = False
    on_abort: str = "obey"
    reaction: float = 0.01
    unstarted: bool = False


class Handler:
    """One running handler."""

    __slots__ = ("abort", "ends", "lease", "plan", "spec", "started")

    def __init__(self, action: StartRun, plan: Plan, started: float) -> None:
        self.lease: Lease = action.lease
        self.spec: JobSpec = action.spec
        self.plan = plan
        self.started = started
        self.abort: str | None = None
        self.ends = 0  # which of its planned ends counts


class Instance:
    """One process, from its start to its death or its stop."""

    def __init__(self, fleet: Fleet, host: Host, name: str, settings: Settings) -> None:
        self.fleet = fleet
        self.world = fleet.world
        self.host = host
        self.name = name
        self.token = settings.token
        self.settings = settings
        self.core = Core(settings, Random(f"{fleet.world.seed}/{name}"))
        self.clock = StoreClock(settings, steady=fleet.store.steady)
        lease_ms, nobody = round(settings.lease * 1000), None
        backend = fleet.store.backend
        if not settings.leases:
            backend = ClaimOnly(backend, lost_after=LOST_AFTER)
        self.lane = Lane(backend, Owner(self.token, name), lease_ms, nobody, nobody)
        self.alive = True
        self.frozen = False
        self.frozen_for = 0.0
        self.stopped = False
        self.stopping_at: float | None = None
        self.handlers: dict[Lease, Handler] = {}
        self.keeper_delay = 0.0
        self.quick = max(0.2, settings.heartbeat / 5)
        self.limit = max(0.2, 0.4 * settings.heartbeat)
        self._alarm = 0
        self._alarm_for: float | None = None
        self._deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __repr__(self) -> str:
        return self.name

    @property
    def excused(self) -> bool:
        """Whether this process stands still for so long that its leases may be taken."""
        return self.frozen and self.frozen_for >= self.settings.margin - self.host.slow - 0.05

    @property
    def up(self) -> bool:
        """Whether this process lives and hasn't stopped."""
        return self.alive and not self.stopped

    # --- from outside ---

    def begin(self, specs: list[JobSpec]) -> None:
        """Hear the store's time, as `open` does, and take the jobs on."""
        sent, received = self.host.mono(), self.host.mono()
        self.clock.heard(sent, received, self.host.wall(), self.fleet.store.time.wall_ms())
        self.add(*specs)

    def add(self, *specs: JobSpec) -> None:
        """Schedule jobs."""
        for spec in specs:
            self._guarded(self.core.add, spec, self._now())
        self._input(Tick())

    def remove(self, name: str) -> None:
        """Stop scheduling a job."""
        self._guarded(self.core.remove, name)
        self._input(Tick())

    def run_now(self, key: RunKey) -> None:
        """Run a job by a call."""
        self._input(RunNow(key, None))

    def ordered(self, job: str) -> None:
        """Hear that this process asked the fleet for runs of a job."""
        self._input(Ordered(job))

    def stop(self, timeout: float, spare: frozenset[Lease] = frozenset()) -> None:
        """Stop gracefully."""
        self._input(Stop(timeout, spare))

    def crash(self) -> None:
        """Die at once, like a process that was killed."""
        self.alive = False
        self._deferred.clear()
        self.fleet.monitor.died(self)
        self.handlers.clear()

    def freeze(self, seconds: float = inf) -> None:
        """Do nothing from now on, for so long."""
        self.frozen = True
        self.frozen_for = seconds

    def wake(self, *, in_any_order: bool = False) -> None:
        """Go on, with what arrived meanwhile first; threads that waited may race."""
        self.frozen = False
        self.fleet.monitor.woke(self)
        deferred, self._deferred = self._deferred, []
        if in_any_order:
            self.host.rng.shuffle(deferred)
        for call, args in deferred:
            if self.alive:
                call(*args)

    # --- the scheduler's thread ---

    def _now(self) -> Now:
        mono = self.host.mono()
        return Now(self.clock.reading(self.host.wall(), mono), mono)

    def _guarded(self, step: Callable[..., Any], *given: object) -> Any:
        try:
            return step(*given)
        except Violation:
            raise
        except Exception as error:
            name, text = "loop-lives", f"{self}: {type(error).__name__}: {error}"
            raise Violation(name, f"{text} [seed {self.world.seed}]") from error

    def _input(self, message: Input) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self._input, (message,)))
            return
        now = self._now()
        if isinstance(message, Stop) and self.stopping_at is None:
            self.stopping_at = self.world.now
        for action in self._guarded(self.core.handle, message, now):
            self._act(action)
        # Looking ahead makes a difference of time alone, so half of the instances never do.
        while len(self.handlers) % 2 == 0 and self.core.is_behind:
            for action in self._guarded(self.core.look_ahead, now):
                self._act(action)
        wakeup = self._guarded(self.core.next_wakeup, now)
        self.fleet.monitor.handled(self, message, now, wakeup)
        self._arm(wakeup)

    def _arm(self, wakeup: float | None) -> None:
        if wakeup == self._alarm_for:
            return
        self._alarm += 1
        self._alarm_for = wakeup
        if wakeup is not None:
            now, at = self.world.now, self.host.true_at(wakeup)
            at = min(at + self.host.late(at - now), now + LONGEST_WAIT)
            self.world.at(at, self._ring, self._alarm)

    def _ring(self, alarm: int) -> None:
        if alarm == self._alarm and self.up:
            self._alarm_for = None
            self._input(Tick())

    def _act(self, action: Action) -> None:
        monitor = self.fleet.monitor
        if isinstance(action, CALLS):
            monitor.sends(self, action)
            self._ask(action)
        elif isinstance(action, StartRun):
            monitor.starts(self, action)
            self._start(action)
        elif isinstance(action, Abort):
            self._abort(action)
        elif isinstance(action, Stopped):
            self.stopped = True
            monitor.stopped(self)
        else:
            monitor.told(self, action)

    # --- the lane and the keeper ---

    def _ask(self, call: StoreCall) -> None:
        wait = self.host.hand_over()
        if isinstance(call, Renew | Look):
            wait += self.keeper_delay
        self.world.after(wait, self._send, call, self.clock.basis())

    def _send(self, call: StoreCall, basis: Basis) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self._send, (call, basis)))
            return
        sent = self.host.mono()
        pace = basis.pace(sent)
        fate = self.fleet.noise.fate(self.host)
        limit = self.quick if isinstance(call, Renew | Look) else self.limit
        gives_up = self.world.now + limit
        shut = self.fleet.store.shut(call)
        if fate.there is None or shut is not None:
            at = gives_up if shut != "refused" else self.world.now + 2 * self.host.trip
            self.world.at(at, self._failed, call)
        else:
            there = self.world.now + fate.there
            if there > gives_up:
                self.world.at(gives_up, self._failed, call)
            self.world.at(there, self._execute, call, pace, sent, fate.back, gives_up)
        if fate.copy is not None:
            self.world.after(fate.copy, self._copied, call, pace)

    def _execute(
        self, call: StoreCall, pace: Pace, sent: float, back: float | None, gives_up: float
    ) -> None:
        """The request has arrived at the store, whatever became of the sender."""
        store = self.fleet.store
        waited_for = self.world.now <= gives_up
        if store.shut(call) is not None:
            if waited_for:
                self.world.at(gives_up, self._failed, call)
            return
        answer = store.execute(self.lane, call, pace, old=not waited_for)
        wins = 0
        if isinstance(call, Claim):
            wins = sum(type(one).__name__ == "Won" for one in answer.answers)
        size = len(call[0]) if isinstance(call[0], tuple) else 1
        at = self.world.now + store.delay(size, wins) + (back or 0.0)
        if not waited_for:
            return
        if back is None or at > gives_up:
            self.world.at(gives_up, self._failed, call)
        else:
            self.world.at(at, self._answered, call, answer, sent, self.world.now)

    def _copied(self, call: StoreCall, pace: Pace) -> None:
        """An old copy of a request arrives."""
        if self.fleet.store.shut(call) is None:
            self.fleet.store.execute(self.lane, call, pace, old=True)

    def _answered(
        self, call: StoreCall, answer: StoreAnswer, sent: float, executed_at: float
    ) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self._answered, (call, answer, sent, executed_at)))
            return
        received = self.host.mono()
        self.clock.heard(sent, received, self.host.wall(), answer.store_ms)
        self.fleet.monitor.replied(self, call, answer, executed_at)
        self._input(Answered(call, answer, sent, received, self.clock.agrees(sent)))

    def _failed(self, call: StoreCall) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self._failed, (call,)))
            return
        self.fleet.monitor.unanswered(self, call)
        self._input(Failed(call, ConnectionError("no answer")))

    # --- the workers ---

    def _start(self, action: StartRun) -> None:
        plan = self.fleet.plan(self, action)
        handler = Handler(action, plan, self.world.now)
        self.handlers[action.lease] = handler
        self._end_after(handler, 0.0 if plan.unstarted else self.host.hand_over() + plan.seconds)

    def _end_after(self, handler: Handler, seconds: float) -> None:
        handler.ends += 1
        self.world.after(seconds, self._end, handler, handler.ends)

    def _abort(self, action: Abort) -> None:
        handler = self.handlers.get(action.lease)
        if handler is None or handler.abort is not None:
            return
        self.fleet.monitor.aborts(self, handler, action.reason)
        handler.abort = action.reason
        if handler.plan.on_abort != "ignore":
            self._end_after(handler, handler.plan.reaction)

    def _end(self, handler: Handler, ends: int) -> None:
        if not self.alive or ends != handler.ends:
            return
        if self.frozen:
            self._deferred.append((self._end, (handler, ends)))
            return
        self.fleet.monitor.ended(self, handler)
        del self.handlers[handler.lease]
        plan, lease = handler.plan, handler.lease
        how = plan.on_abort if handler.abort and plan.on_abort != "ignore" else ""
        if plan.unstarted:
            self._input(Ended(lease, unstarted=True))
        elif how == "obey":
            self._input(Ended(lease, "Aborted", aborted=True))
        elif how == "raise" or (not how and plan.raises):
            self._input(Ended(lease, "ValueError: no", "Traceback"))
        else:
            self._input(Ended(lease))
