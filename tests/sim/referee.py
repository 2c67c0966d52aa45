"""The referee of a noisy simulation: watches every instance and checks the invariants.

Safety is checked in the moment something happens (here and in `ledger.py`), what has to
happen in time about ten times a second (`liveness.py`), the cost of it at every call
(`costs.py`). Each `Violation` begins with the name of its invariant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._messages import (
    Claim,
    Emit,
    Finish,
    RecordManual,
    Release,
    Renew,
    Return,
    Skip,
    Stop,
    Unfinished,
)
from anarchon._values import Claims, Lease, Won

from .costs import Costs
from .fleet import Monitor
from .ledger import Ledger
from .liveness import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        Action,
        Input,
        Now,
        StartRun,
        StoreCall,
    )
    from anarchon._threads_lanes import StoreAnswer
    from anarchon._values import RunKey

    from .instance import Handler, Instance
    from .store import Store
    from .world import World

SLACK = 0.003  # whole milliseconds, drift, and the event that is dealt with later in the queue
ENDS = {"success", "failure", "interrupted", "skipped", "missed", "lost"}


class Witnessed:
    """What the referee keeps of one instance."""

    def __init__(self, inst: Instance, now: float) -> None:
        self.inst = inst
        self.started = now
        self.jobs: dict[str, float] = {}  # its jobs, and since when it has them
        self.awake = now  # since when it isn't frozen
        self.clock = now  # since when its clock is near the store's
        self.unsure = 0  # a clock has stepped: so many replies tell it so
        self.reached = now  # since when all its calls were answered
        self.free = now  # since when a worker is free, if one is
        self.busy = False
        self.stop: tuple[float, float] | None = None  # when it was told to stop, and its limit
        self.idle = now  # when its last handler ended
        self.won: set[Lease] = set()
        self.manual: set[str] = set()  # runs by a call that have not returned yet
        self.told: set[tuple[str, int, str]] = set()


class Referee(Monitor):
    """Checks everything that happens in one world."""

    def __init__(self, world: World, store: Store, *, leases: bool = True) -> None:
        self.world = world
        self.store = store
        self.leases = leases
        self.ledger = Ledger(world, store)
        self.seen: dict[str, Witnessed] = {}  # by token
        self.starts_of: dict[Lease, int] = {}
        self.ended_at: dict[RunKey, float] = {}
        self.called: set[Lease] = set()  # whose handler was really called
        self.liveness = Liveness(self)
        self.costs = Costs(self)
        self._next_check = 0.0
        self.log: Callable[[str], object] | None = None
        store.on_executed = self.ledger.executed
        world.each_step = self.check

    def check(self) -> None:
        """Look at what has to have happened by now."""
        if self.world.now >= self._next_check:
            self._next_check = self.world.now + 0.1
            for seen in self.seen.values():
                if seen.inst.up:
                    self._check_handlers(seen)
                    self._check_stop(seen)
            self.liveness.check()

    def _say(self, *words: object) -> None:
        if self.log is not None:
            self.log(f"{self.world.now:9.4f} " + " ".join(map(str, words)))

    # --- an instance's life ---

    def joined(self, inst: Instance) -> None:
        """Keep an eye on a new instance."""
        self._say(inst, "begins")
        self.seen[inst.token] = Witnessed(inst, self.world.now)
        self.costs.joined(inst)

    def woke(self, inst: Instance) -> None:
        """An instance goes on after a freeze."""
        self.seen[inst.token].awake = self.world.now

    def died(self, inst: Instance) -> None:
        """A process is killed, and with it its handlers."""
        self._say(inst, "dies")
        self.called.update(
            handler.lease for handler in inst.handlers.values() if not handler.plan.unstarted
        )

    def handled(self, inst: Instance, message: Input, now: Now, wakeup: float | None) -> None:
        """Check what a core shows after every input."""
        self._say(inst, "takes", type(message).__name__, "at", now.wall_ms, "wakes", wakeup)
        seen = self.seen[inst.token]
        free = inst.core.view().free_workers
        if free and seen.busy:
            seen.free = self.world.now
        seen.busy = not free
        if isinstance(message, Stop) and seen.stop is None:
            spared = inst.settings.heartbeat if message.spare else 0.0
            seen.stop = (self.world.now, message.timeout + spared)
        self.costs.handled(inst, message, now, wakeup)

    def replied(
        self, inst: Instance, call: StoreCall, answer: StoreAnswer, executed_at: float
    ) -> None:
        """Note what an instance was told."""
        self._say(inst, "<-", answer)
        seen = self.seen[inst.token]
        if seen.unsure:
            seen.unsure -= 1
            seen.clock = self.world.now
        if isinstance(call, Claim) and isinstance(answer, Claims):
            for one in answer.answers:
                if isinstance(one, Won):
                    seen.won.add(Lease(one.key, one.attempt))
        if isinstance(call, Claim | Skip):
            jobs = {wish.key.job for wish in call.wishes}
            self.ledger.replied(jobs, inst.token, executed_at)
        elif isinstance(call, Unfinished):
            self.ledger.replied(set(call.jobs), inst.token, executed_at)
        self.costs.replied(inst, call, answer)

    def unanswered(self, inst: Instance, call: StoreCall) -> None:
        """An instance couldn't reach the store."""
        self._say(inst, "no answer to", type(call).__name__)
        self.seen[inst.token].reached = self.world.now
        self.costs.unanswered(inst, call)

    def sends(self, inst: Instance, call: StoreCall) -> None:
        """Nothing is sent after a stop; nothing is sent without a reason."""
        self._say(inst, "->", call)
        if inst.stopped:
            self.world.fail("stop-bound", f"{inst} sends {call} after it stopped")
        ends = isinstance(call, Finish | Release | RecordManual | Renew)
        if inst.stopping_at is not None and not ends and getattr(call, "wins", 1):
            self.world.fail("stop-bound", f"{inst} sends {call} though it stops")
        if isinstance(call, Renew) and not self.ledger.gave_up.isdisjoint(call.leases):
            self.world.fail("self-fence", f"{inst} renews {call.leases}, one of which it gave up")
        self.costs.sends(inst, call)

    def told(self, inst: Instance, action: Action) -> None:
        """Every end of an attempt is told of once, by whoever tells it."""
        self._say(inst, "tells", action)
        seen = self.seen[inst.token]
        if isinstance(action, Return):
            if action.key.manual not in seen.manual:
                self.world.fail("told-once", f"{inst} returns {action.key} twice")
            seen.manual.discard(action.key.manual)
        if isinstance(action, Emit) and action.event in ENDS:
            what = (action.run.run_id, action.run.attempt, action.event)
            if what in seen.told and not self._anew(seen, action.run.job):
                self.world.fail("told-once", f"{inst} tells of {what} twice")
            seen.told.add(what)

    def _anew(self, seen: Witnessed, job: str) -> bool:
        """Whether a job is gone, or defined anew, so that nobody knows what was told of it."""
        return seen.stop is not None or seen.jobs.get(job, self.world.now) > seen.started

    # --- handlers ---

    def starts(self, inst: Instance, action: StartRun) -> None:
        """Check that this handler may be called, here and now."""
        lease, world = action.lease, self.world
        self._say(inst, "starts", lease)
        if inst.stopping_at is not None:
            world.fail("stop-bound", f"{inst} starts {lease} after stop was asked")
        self.starts_of[lease] = self.starts_of.get(lease, 0) + 1
        if self.starts_of[lease] > 1:
            world.fail("one-winner", f"{lease} starts a second time, on {inst}")
        if lease.key.manual:
            return
        # An old copy of a batch may have won a run that nobody asked for any more.
        busy = sum(not running.key.manual for running in inst.handlers)
        room = inst.settings.workers + inst.core.view().stuck
        if busy >= room and self.ledger.touched_at < 0:
            world.fail("bounded", f"{inst} starts {lease} though {busy} handlers are running")
        if lease not in self.seen[inst.token].won:
            world.fail("one-winner", f"{inst} starts {lease}, which it was never told to have won")
        if self.ledger.winners.get(lease) != inst.token:
            world.fail("one-winner", f"{inst} starts {lease} of {self.ledger.winners.get(lease)}")
        self._check_early(inst, action)
        self._check_beside(inst, action)

    def _check_early(self, inst: Instance, action: StartRun) -> None:
        early = action.lease.key.slot_ms - self.store.time.wall_ms()
        if early > 1 and self.world.now - self.ledger.stepped_at > 120:
            self.world.fail("never-early", f"{inst} starts {action.lease} {early} ms early")

    def _check_beside(self, inst: Instance, action: StartRun) -> None:
        """No un-aborted handler of this run lives anywhere, nor of its job (overlap skip)."""
        key, terms = action.lease.key, action.spec.terms
        others = 0
        for other in self.seen.values():
            if not other.inst.alive or other.inst.frozen:
                continue
            for handler in other.inst.handlers.values():
                if handler.abort or handler.lease.key.manual:
                    continue
                if handler.lease.key == key and not self._allowed(other, handler):
                    text = f"{handler.lease} still runs on {other.inst} as {inst} starts the next"
                    self.world.fail("self-fence", text)
                others += handler.lease.key.job == key.job and handler.lease.key != key
        first = action.lease.attempt == 1
        sure = self.leases and self.ledger.stepped_at < 0
        if terms.skip_overlap and first and others and sure:
            self.world.fail("overlap", f"{action.lease} starts on {inst} beside another slot")
        earlier = (Lease(key, n) for n in range(1, action.lease.attempt))
        if terms.budget == 0 and any(lease in self.called for lease in earlier):
            self.world.fail("one-winner", f"{key} is not to be followed, and starts again")

    def _fence(self, handler: Handler) -> float | None:
        """Return the true time at which this attempt has to be given up."""
        truth = self.ledger.runs.get(handler.lease.key)
        if truth is None or truth.terms is None:
            return None
        if handler.lease.attempt in truth.fences:
            return truth.fences[handler.lease.attempt]
        lease = truth.terms.lease_ms / 1000
        return truth.extended + lease - max(lease / 10, 0.25)

    def _allowed(self, seen: Witnessed, handler: Handler) -> bool:
        """Whether a handler may not have aborted yet: it wakes up late, and a step ate its margin.

        With the witness of `lease - margin`, and a store clock that stepped forward, the next
        attempt may start as soon as the deadline of this one has passed.
        """
        if self.world.now - seen.awake < seen.inst.host.slow + SLACK:
            return True
        stepped = self.world.now - self.ledger.stepped_at < 2 * seen.inst.settings.lease
        return stepped and not self.store.steady

    def aborts(self, inst: Instance, handler: Handler, reason: str) -> None:
        """A signal aborts: not too late."""
        self._say(inst, "aborts", handler.lease, reason)
        if reason == "lost":
            self.ledger.gave_up.add(handler.lease)
        self._check_late(self.seen[inst.token], handler)

    def ended(self, inst: Instance, handler: Handler) -> None:
        """A handler ends."""
        self.ended_at[handler.lease.key] = self.world.now
        if not handler.plan.unstarted:
            self.called.add(handler.lease)
        self._say(inst, "ended", handler.lease)
        self.seen[inst.token].idle = self.world.now
        self._check_late(self.seen[inst.token], handler)

    def _check_handlers(self, seen: Witnessed) -> None:
        if not seen.inst.frozen:
            for handler in seen.inst.handlers.values():
                self._check_late(seen, handler)

    def _check_late(self, seen: Witnessed, handler: Handler) -> None:
        """An attempt is given up before its lease can be taken, by everybody's clock."""
        if handler.abort is not None or handler.lease.key.manual or not self.leases:
            return
        fence = self._fence(handler)
        if fence is None:
            return
        late = self.world.now - max(fence, seen.awake)
        if late > seen.inst.host.slow + SLACK + seen.inst.settings.lease * 2e-4:
            text = f"{seen.inst} holds on to {handler.lease} {late:.3f} s after its deadline"
            self.world.fail("self-fence", text)

    # --- stop ---

    def stopped(self, inst: Instance) -> None:
        """A core says that it is done: nobody waits for it any more."""
        left = self.seen[inst.token].manual
        if left:
            self.world.fail("stop-bound", f"{inst} stopped and never returned {left}")

    def _check_stop(self, seen: Witnessed) -> None:
        """A stop ends at its limit, or as soon as nothing is left to wait for."""
        if seen.stop is None or seen.inst.frozen:
            return
        at, timeout = seen.stop
        inst, now = seen.inst, self.world.now
        if now > max(at + timeout, seen.awake) + inst.host.slow + 0.15:
            self.world.fail("stop-bound", f"{inst} has not stopped {now - at:.2f} s after stop()")
        last = max(at, seen.idle, seen.awake, seen.reached + min(5.0, inst.settings.heartbeat / 2))
        if not inst.handlers and now > last + 3 * inst.limit + inst.keeper_delay + 0.15:
            self.world.fail("stop-bound", f"{inst} has nothing to wait for, and doesn't stop")
