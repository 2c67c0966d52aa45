"""What an instance may cost: store calls only for a reason, and memory only for what is there."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from anarchon._messages import (
    Claim,
    Ended,
    Look,
    Renew,
    Unfinished,
)
from anarchon._values import Claims, Early, Free, Looked, Lost, Renewed, Settled, Suspect

if TYPE_CHECKING:
    from anarchon._messages import (
        Input,
        Now,
        StoreCall,
    )
    from anarchon._threads_lanes import StoreAnswer

    from .instance import Instance
    from .referee import Referee
    from .versions import Live

EARLY_MS = 1000  # the store lets a claim come so early
WINDOW = 1.2  # a claim follows its slot by at most a second


class Account:
    """What one instance has sent, and what gave it reasons to."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.stirred = now  # something happened to it alone: a start, a failure, a new job
        self.claims = 0
        self.claim_reasons = 10.0
        self.looks = 0
        self.look_reasons = 3.0
        self.renews_at = -1e9  # when the last renewal was sent
        self.renewed_at = -1e9  # when the last one that was answered was sent
        self.lane = False  # whether a call other than a renewal or a look is in flight
        self.slots_seen: dict[Live, int] = {}  # how many slots of a definition are counted
        self.slots = 0
        self.inputs = 0


class Costs:
    """Checks quiet, no-polling, bounded, and that a claim is planned whenever one is needed."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._world = referee.world
        self._accounts: dict[str, Account] = {}

    def joined(self, inst: Instance) -> None:
        """Open an account."""
        self._accounts[inst.token] = Account(self._world.now)

    def stir(self, inst: Instance) -> None:
        """Something was done to this instance from outside, which it may have to ask about."""
        account = self._accounts[inst.token]
        account.stirred = self._world.now
        account.claim_reasons += 3

    # --- reasons ---

    def replied(self, inst: Instance, call: StoreCall, answer: StoreAnswer) -> None:
        """An answer may give reasons to ask again."""
        account = self._accounts[inst.token]
        if not isinstance(call, Renew | Look):
            account.lane = False
        if isinstance(answer, Looked):
            account.claim_reasons += 2 * len(answer.wrong)
            account.look_reasons += answer.next_end_ms is not None
        elif isinstance(answer, Claims):
            account.look_reasons += 1
            again = sum(isinstance(one, Early | Suspect | Free) for one in answer.answers)
            account.claim_reasons += again + 2 * len(answer.open)
        if isinstance(call, Renew):
            account.renewed_at = account.renews_at
        if isinstance(answer, Renewed):
            account.claim_reasons += 2 * len(answer.lost)
        elif isinstance(answer, Settled):
            account.claim_reasons += 2 * sum(isinstance(one, Lost) for one in answer.answers)
        if isinstance(call, Unfinished):
            account.stirred = self._world.now

    def unanswered(self, inst: Instance, call: StoreCall) -> None:
        """A call without an answer is repeated."""
        account = self._accounts[inst.token]
        if not isinstance(call, Renew | Look):
            account.lane = False
        account.claim_reasons += isinstance(call, Claim)
        account.look_reasons += isinstance(call, Look)
        account.stirred = self._world.now
        account.renewed_at = -1e9

    # --- calls ---

    def sends(self, inst: Instance, call: StoreCall) -> None:
        """Check that there is a reason for this call."""
        account = self._accounts[inst.token]
        if not isinstance(call, Renew | Look):
            account.lane = True
        heartbeat = inst.settings.heartbeat
        if isinstance(call, Renew):
            if self._world.now - account.renewed_at < heartbeat * 0.95:
                self._fail("quiet", f"{inst} renews twice within a heartbeat")
            account.renews_at = self._world.now
        elif isinstance(call, Look):
            account.looks += 1
            beats = (self._world.now - account.since) / (0.9 * heartbeat)
            if inst.settings.control is not None:
                beats += (self._world.now - account.since) / inst.settings.control
            if account.looks > beats + account.look_reasons:
                self._fail("quiet", f"{inst} has looked {account.looks} times, {beats:.0f} beats")
        elif isinstance(call, Claim):
            account.claims += 1
            self._check_claim(inst, account, call)
        self._check_quiet(inst, account, call)

    def _check_claim(self, inst: Instance, account: Account, call: Claim) -> None:
        if call.wins > inst.settings.workers:
            self._fail("no-polling", f"{inst} wants {call.wins} wins")
        reasons = account.claim_reasons + 3 * self._slots_due(inst, account)
        if account.claims > reasons:
            self._fail(
                "no-polling", f"{inst} has claimed {account.claims} times, {reasons:.0f} due"
            )

    def _slots_due(self, inst: Instance, account: Account) -> int:
        """Return how many slots were due for this instance, by its own definitions."""
        for live in self._referee.seen[inst.token].lives.values():
            due = len(self._referee.liveness.dues[live])
            account.slots += due - account.slots_seen.get(live, max(0, due - 1))
            account.slots_seen[live] = due
        return account.slots

    def _check_quiet(self, inst: Instance, account: Account, call: StoreCall) -> None:
        """Nothing is sent while nothing is due, running here or watched."""
        seen = self._referee.seen[inst.token]
        now, heartbeat = self._world.now, inst.settings.heartbeat
        soon = WINDOW + 1.2 * heartbeat + 2 * inst.limit + inst.keeper_delay
        lately = max(account.stirred, seen.awake, seen.clock)
        looks = isinstance(call, Look) and inst.settings.control is not None
        if looks or len(inst.core._held) or seen.unsure or now - lately < soon:
            return
        ledger = self._referee.ledger
        clocks_ms = (self._referee.store.time.wall_ms(), int(inst.host.wall() * 1000))
        for job, live in seen.lives.items():
            grid = live.grid
            # On a host whose clock is far off slots are due by the earlier of the two.
            if any(ms - grid.slot_at(ms + EARLY_MS) < soon * 1000 for ms in clocks_ms):
                return
            if any(truth.key.job == job for truth in ledger.open.values()):
                return
            if now - ledger.last_open.get(job, -1e9) < soon:
                return
        if now - max(seen.idle, ledger.stepped_at, ledger.touched_at, ledger.lost_at) > soon:
            self._fail("quiet", f"{inst} sends {call} for nothing")

    # --- after every input ---

    def handled(self, inst: Instance, message: Input, now: Now, wakeup: float | None) -> None:
        """Check what the core holds and plans."""
        account = self._accounts[inst.token]
        if isinstance(message, Ended):
            account.claim_reasons += 2
        self._check_planned(inst, now, wakeup)
        account.inputs += 1
        if account.inputs % 200 == 0:
            self._check_bounded(inst)

    def _check_planned(self, inst: Instance, now: Now, wakeup: float | None) -> None:
        """A slot that may be claimed and a free worker imply a claim planned or in flight."""
        core = inst.core
        race = core._race
        if core.stopping or race.undecided or not core._held.free_workers():
            return
        waiting = [job for job in race.slots.waiting.values() if self._claimable(inst, job, now)]
        ready = [
            watch
            for watch in race.watches._runs.values()
            if watch.ready_at <= now.mono and core._held.of(watch.key) is None
        ]
        if not waiting and not ready:
            return
        if self._accounts[inst.token].lane:
            return  # its answer is the next input, and plans the claim
        latest = now.mono + WINDOW + min(5.0, inst.settings.heartbeat / 2)
        if wakeup is None or wakeup > latest:
            what = waiting[0].pending.key if waiting else ready[0].key
            self._fail("claim-planned", f"{inst} has a free worker and plans no claim of {what}")

    def _claimable(self, inst: Instance, job: object, now: Now) -> bool:
        pending = job.pending
        held, watched = inst.core._held, inst.core._race.watches
        blocked = pending is not None and pending.blocked_by
        return (
            pending is not None
            and pending.not_before <= now.mono
            and not (blocked and (blocked in watched or held.of(blocked)))
            and held.of(pending.key) is None
        )

    def _check_bounded(self, inst: Instance) -> None:
        """What a core keeps doesn't grow with time."""
        seen = self._referee.seen[inst.token]
        open_here = sum(truth.key.job in seen.jobs for truth in self._referee.ledger.open.values())
        # Heaps and lists may keep a few dozen entries that are out of date.
        most = 600 + 150 * len(seen.jobs) + 40 * (len(inst.core._held) + open_here)
        size = size_of(inst.core)
        if size > most:
            self._fail("bounded", f"{inst} keeps {size} things, at most {most} make sense")

    def _fail(self, name: str, text: str) -> None:
        self._world.fail(name, text)


def size_of(thing: object) -> int:
    """Return how many entries all containers have that belong to this object."""
    size, stack, known = 0, [thing], set()
    while stack:
        one = stack.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if isinstance(one, dict):
            size += len(one)
            stack.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset | deque):
            size += len(one)
            stack.extend(one)
        elif type(one).__module__.startswith("anarchon.") and not isinstance(one, type):
            names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            stack.extend(getattr(one, name) for name in names if hasattr(one, name))
            stack.extend(getattr(one, "__dict__", {}).values())
    return size
