"""The referee of a noisy simulation: watches every instance and checks the invariants.

Safety is checked in the moment something happens (here, in `handlers.py` and in `ledger.py`),
what has to happen in time about ten times a second (`liveness.py`), the cost of it at every call
(`costs.py`). Each `Violation` begins with the name of its invariant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._messages import (
    Claim,
    Emit,
    Finish,
    Note,
    RecordManual,
    Release,
    Renew,
    Return,
    Skip,
    Stop,
    StoreUp,
    Unfinished,
)
from anarchon._values import Claims, Lease, Renewed, Won

from .costs import Costs
from .fleet import Monitor
from .handlers import Handlers, is_fenced
from .ledger import Ledger
from .liveness import Liveness
from .orders import Orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    from .truth import Kept
    from .versions import Live
    from .world import World

ENDS = {"success", "failure", "interrupted", "skipped", "missed", "lost"}


class Witnessed:
    """What the referee keeps of one instance."""

    def __init__(self, inst: Instance, now: float) -> None:
        self.inst = inst
        self.started = now
        self.jobs: dict[str, float] = {}  # its jobs, and since when it has them
        self.lives: dict[str, Live] = {}  # how it defines them
        self.awake = now  # since when it isn't frozen
        self.resumed = -1e9  # when its machine went on after a suspend
        self.clock = now  # since when its clock is near the store's
        self.unsure = 0  # a clock has stepped: so many replies tell it so
        self.reached = now  # since when all its calls were answered
        self.free = now  # since when a worker is free, if one is
        self.busy = False
        self.stop: tuple[float, float] | None = None  # when it was told to stop, and its limit
        self.idle = now  # when its last handler ended
        self.won: set[Lease] = set()
        self.manual: set[str] = set()  # runs by a call that have not returned yet
        self.told: dict[tuple[str, int, str], float] = {}  # and when
        self.lost: tuple[Lease, ...] = ()  # the store has just said so


class Referee(Monitor):
    """Checks everything that happens in one world."""

    def __init__(self, world: World, store: Store, *, leases: bool = True) -> None:
        self.world = world
        self.store = store
        self.leases = leases
        self.ledger = Ledger(world, store)
        self.seen: dict[str, Witnessed] = {}  # by token
        self.living: list[Witnessed] = []
        self.interval = 0.1  # seconds between two looks at what has to have happened
        self.ended_at: dict[RunKey, float] = {}
        self.liveness = Liveness(self)
        self.orders = Orders(self)
        self.costs = Costs(self)
        self.handlers = Handlers(self)
        self._next_check = 0.0
        self.log: Callable[[float, tuple[object, ...]], object] | None = None
        store.on_executed = self.ledger.executed
        world.each_step = self.check

    def check(self) -> None:
        """Look at what has to have happened by now."""
        if self.world.now >= self._next_check:
            self._next_check = self.world.now + self.interval
            self.living = [seen for seen in self.living if seen.inst.up]
            for seen in self.living:
                if seen.inst.handlers:
                    self.handlers.check(seen)
                if seen.stop is not None:
                    self._check_stop(seen)
            self.liveness.check()
            self.orders.check()

    def say(self, *words: object) -> None:
        """Note something in the log, if there is one."""
        if self.log is not None:
            self.log(self.world.now, words)

    # --- an instance's life ---

    def joined(self, inst: Instance) -> None:
        """Keep an eye on a new instance."""
        self.say(inst, "begins")
        seen = self.seen[inst.token] = Witnessed(inst, self.world.now)
        self.living.append(seen)
        self.costs.joined(inst)

    def woke(self, inst: Instance) -> None:
        """An instance goes on after a freeze."""
        self.say(inst, "wakes")
        self.seen[inst.token].awake = self.world.now

    def slept(self, inst: Instance, seconds: float) -> None:
        """An instance's machine was suspended for so long: its own clock knows nothing of that."""
        self.seen[inst.token].resumed = self.world.now
        held = self.ledger.extended_of
        for lease, token in [one for one in held if one[1] == inst.token]:
            held[lease, token] += seconds

    def defines(self, inst: Instance, lives: Iterable[Live]) -> None:
        """An instance has these definitions from now on."""
        seen = self.seen[inst.token]
        for live in lives:
            seen.jobs[live.name] = self.world.now
            seen.lives[live.name] = live
            self.liveness.watch(live)

    def undefines(self, inst: Instance, name: str) -> None:
        """An instance has a job no longer."""
        seen = self.seen[inst.token]
        seen.jobs.pop(name, None)
        seen.lives.pop(name, None)
        self.ledger.fences_told.pop((inst.token, name), None)

    def lose(self, kept: Kept) -> None:
        """The store goes on without what was written after a copy was made."""
        self.liveness.settle_now()
        self.say("the store forgets of", *sorted(self.ledger.lose(kept)))
        for seen in self.living:
            self.costs.stir(seen.inst)

    def died(self, inst: Instance) -> None:
        """A process is killed, and with it its handlers."""
        self.say(inst, "dies")
        self.handlers.called.update(
            handler.lease for handler in inst.handlers.values() if not handler.plan.unstarted
        )

    def handled(self, inst: Instance, message: Input, now: Now, wakeup: float | None) -> None:
        """Check what a core shows after every input."""
        self.say(inst, "takes", type(message).__name__, "at", now.wall_ms, "wakes", wakeup)
        seen = self.seen[inst.token]
        free = inst.core.view().free_workers
        if free and seen.busy:
            seen.free = self.world.now
        seen.busy = not free
        if isinstance(message, Stop) and seen.stop is None:
            spared = inst.settings.heartbeat if message.spare else 0.0
            seen.stop = (self.world.now, message.timeout + spared)
        self._check_told(seen)
        self.costs.handled(inst, message, now, wakeup)

    def _check_told(self, seen: Witnessed) -> None:
        """Whoever hears that its attempt is lost aborts it in that moment."""
        lost, seen.lost = seen.lost, ()
        for lease in lost:
            handler = seen.inst.handlers.get(lease)
            if handler is not None and handler.abort is None and is_fenced(lease.key):
                self.world.fail("self-fence", f"{seen.inst} is told that it lost {lease}")

    def replied(
        self, inst: Instance, call: StoreCall, answer: StoreAnswer, executed_at: float
    ) -> None:
        """Note what an instance was told."""
        self.say(inst, "<-", answer)
        seen = self.seen[inst.token]
        if seen.unsure:
            seen.unsure -= 1
            seen.clock = self.world.now
        if isinstance(call, Claim) and isinstance(answer, Claims):
            for one in answer.answers:
                if isinstance(one, Won):
                    self._told_won(seen, one)
        if isinstance(answer, Renewed):
            seen.lost = answer.lost
        self.ledger.named(answer, inst.token, executed_at)
        if isinstance(call, Claim | Skip):
            jobs = {wish.key.job for wish in call.wishes}
            self.ledger.replied(jobs, inst.token, executed_at)
        elif isinstance(call, Unfinished):
            self.ledger.replied(set(call.jobs), inst.token, executed_at)
        self.orders.replied(inst, call, answer, executed_at)
        self.costs.replied(inst, call, answer)

    def _told_won(self, seen: Witnessed, won: Won) -> None:
        lease, told = Lease(won.key, won.attempt), (seen.inst.token, won.key.job)
        seen.won.add(lease)
        self.ledger.gave_up.discard((lease, seen.inst.token))
        if won.key.job in seen.jobs:
            fences = self.ledger.fences_told
            fences[told] = max(won.fence, fences.get(told, 0))

    def unanswered(self, inst: Instance, call: StoreCall) -> None:
        """An instance couldn't reach the store."""
        self.say(inst, "no answer to", type(call).__name__)
        self.seen[inst.token].reached = self.world.now
        self.costs.unanswered(inst, call)

    def sends(self, inst: Instance, call: StoreCall) -> None:
        """Nothing is sent after a stop; nothing is sent without a reason."""
        self.say(inst, "->", call)
        if inst.stopped:
            self.world.fail("stop-bound", f"{inst} sends {call} after it stopped")
        ends = isinstance(call, Finish | Release | RecordManual | Renew)
        if inst.stopping_at is not None and not ends and getattr(call, "wins", 1):
            self.world.fail("stop-bound", f"{inst} sends {call} though it stops")
        if isinstance(call, Claim):
            self.ledger.claims(call, inst.token)
        if isinstance(call, Renew):
            given_up = [one for one in call.leases if (one, inst.token) in self.ledger.gave_up]
            if given_up:
                self.world.fail("self-fence", f"{inst} renews {given_up[0]}, which it gave up")
            self.handlers.renews(inst, call.leases)
        self.costs.sends(inst, call)

    def told(self, inst: Instance, action: Action) -> None:
        """Every end of an attempt is told of once, by whoever tells it."""
        self.say(inst, "tells", action)
        seen = self.seen[inst.token]
        if isinstance(action, StoreUp):
            # It asks for everything that is open, with its next call.
            self.ledger.replied(set(seen.jobs), inst.token, self.world.now)
        if isinstance(action, Note) and action.kind == "schedule":
            self.costs.stir(inst)  # one that had no slots may have some now
        if isinstance(action, Return):
            if action.key.manual not in seen.manual:
                self.world.fail("told-once", f"{inst} returns {action.key} twice")
            seen.manual.discard(action.key.manual)
        if isinstance(action, Emit) and action.event in ENDS:
            what = (action.run.run_id, action.run.attempt, action.event)
            again = what in seen.told and action.run.run_id not in self.ledger.forgotten
            # The same slots fall due again where the store's clock stepped back.
            stepped = again and seen.told[what] < self.ledger.stepped_at
            if again and not stepped and not self._anew(seen, action.run.job):
                self.world.fail("told-once", f"{inst} tells of {what} twice")
            seen.told[what] = self.world.now

    def _anew(self, seen: Witnessed, job: str) -> bool:
        """Whether a job is gone, or defined anew, so that nobody knows what was told of it."""
        return seen.stop is not None or seen.jobs.get(job, self.world.now) > seen.started

    # --- handlers ---

    def starts(self, inst: Instance, action: StartRun) -> None:
        """Check that this handler may be called, here and now."""
        self.say(inst, "starts", action.lease)
        self.handlers.starts(inst, action)

    def aborts(self, inst: Instance, handler: Handler, reason: str) -> None:
        """A signal aborts: not too late."""
        self.say(inst, "aborts", handler.lease, reason)
        if reason == "lost":
            self.ledger.gave_up.add((handler.lease, inst.token))
        self.handlers.check_late(self.seen[inst.token], handler)

    def ended(self, inst: Instance, handler: Handler) -> None:
        """A handler ends."""
        self.ended_at[handler.lease.key] = self.world.now
        if not handler.plan.unstarted:
            self.handlers.called.add(handler.lease)
        self.say(inst, "ended", handler.lease)
        self.seen[inst.token].idle = self.world.now
        self.handlers.check_late(self.seen[inst.token], handler)

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
        last = max(
            at,
            seen.idle,
            seen.awake,
            seen.reached + min(5.0, inst.settings.heartbeat / 2),
        )
        if not inst.handlers and now > last + 3 * inst.limit + inst.keeper_delay + 0.15:
            self.world.fail("stop-bound", f"{inst} has nothing to wait for, and doesn't stop")
