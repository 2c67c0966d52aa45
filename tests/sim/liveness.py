"""What has to happen in time: every slot decided, every open run that nobody holds taken on.

A bound counts only while somebody could keep it: from when an instance has been in good
shape (alive, awake, its clock near the store's, all its calls answered, with a free worker
where one is needed). It is then the bound of the invariant, however noisy the rest is.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .referee import Referee, Witnessed
    from .scenario import Live
    from .truth import RunTruth

CLAIMED = 3.0  # two rounds, of windows of at most one second, and the calls
SKIPPED = 2.0
WAITS = 62.0
NEAR = 0.85  # seconds apart, up to which slots are judged on the store's clock
SLACK = 0.2  # wake-ups and the claim's own short window
TRIPS = 8  # of a look, a claim, and what may be in front of them


class Slot:
    """A slot that is due and not decided."""

    __slots__ = ("due", "live", "next_due", "slot_ms")

    def __init__(self, live: Live, slot_ms: int, due: float, next_due: float) -> None:
        self.live = live
        self.slot_ms = slot_ms
        self.due = due
        self.next_due = next_due


class Liveness:
    """Watches slots and open runs."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._world = referee.world
        self._ledger = referee.ledger
        self._slots: list[Slot] = []
        self._walked: dict[Live, int] = {}  # of each definition: the last slot that was taken in
        self.dues: dict[Live, list[float]] = {}  # of each definition: when its slots were due
        self.jobs: dict[str, Live] = {}  # the first definition of each job: what never changes
        self.until: dict[str | None, int] = {}  # until when a job, or all of them, are paused
        self.blocked: dict[str, float] = {}  # of each job: when a dead run last stood in the way
        self.unpaused: dict[str, float] = {}  # since when a job's runs may start
        self.doubtful: dict[str, float] = {}  # until when a job's slots need no explanation

    def check(self) -> None:
        """Look at everything that is not done yet."""
        for live in self._walked:
            self._walk(live)
        for truth in list(self._ledger.open.values()):
            self._ledger.last_open[truth.key.job] = self._world.now
            if self._referee.leases and not truth.key.is_ordered:
                self._check_run(truth)
        self._slots = [slot for slot in self._slots if not self._settled(slot)]

    def watch(self, live: Live) -> None:
        """Somebody has this definition of a job: its slots are due from now on."""
        self.jobs.setdefault(live.name, live)
        if live not in self._walked:
            self.dues[live] = []
            self._walked[live] = live.grid.slot_at(self._referee.store.time.wall_ms())

    def forget_slots(self) -> None:
        """The store's wall clock stepped: what was due before is nobody's business."""
        self._slots.clear()
        wall_ms = self._referee.store.time.wall_ms()
        for live in self._walked:
            self._walked[live] = live.grid.slot_at(wall_ms)

    def settle_now(self) -> None:
        """The store is about to forget: what was decided till now has been."""
        for live in self._walked:
            self._walk(live)
        decided = self._ledger.decided
        self._slots = [one for one in self._slots if not decided(one.live.name, one.slot_ms)]

    def paused(self, job: str) -> bool:
        """Whether a pause is on."""
        until = max(self.until.get(None, 0), self.until.get(job, 0))
        return self._referee.store.time.wall_ms() < until

    def unsettled(self) -> list[str]:
        """Return the runs that are kept alive though no living handler works on them."""
        live = {
            handler.lease.key
            for seen in self._referee.living
            for handler in seen.inst.handlers.values()
        }
        # A win waits for its slot, which a step of the store's clock may have put far ahead.
        waits = WAITS if self._ledger.stepped_at > 0 else CLAIMED
        now, recent = self._world.now, self._world.now - waits
        return [
            f"run {truth.key}"
            for key, truth in self._ledger.open.items()
            if truth.state == "running"
            and truth.terms is not None
            and truth.extended + truth.terms.lease_ms / 1000 > now
            and key not in live
            and max(truth.won_at, self._referee.ended_at.get(key, 0)) < recent
        ]

    # --- slots ---

    def _walk(self, live: Live) -> None:
        wall_ms, period_ms = self._referee.store.time.wall_ms(), live.grid.period_ms
        slot_ms = self._walked[live]
        while slot_ms + period_ms <= wall_ms:
            slot_ms += period_ms
            due = self._world.now - (wall_ms - slot_ms) / 1000
            self.dues[live].append(due)
            if due >= self.doubtful.get(live.name, -inf):
                self._slots.append(Slot(live, slot_ms, due, due + period_ms / 1000))
        self._walked[live] = slot_ms

    def _settled(self, slot: Slot) -> bool:
        name = slot.live.name
        if self._ledger.decided(name, slot.slot_ms):
            return True
        if slot.due < self.doubtful.get(name, -inf):
            return True
        for seen in self._referee.living:
            late = self._overdue(slot, seen)
            if late > 0:
                text = f"{name}@{slot.slot_ms} is not decided, {late:.2f} s too late for"
                self._world.fail("every-slot", f"{text} {seen.inst}")
        return self._world.now > slot.next_due + 300

    def _overdue(self, slot: Slot, seen: Witnessed) -> float:
        """Return by how much this instance is late to see the slot decided."""
        name = slot.live.name
        if seen.lives.get(name) is not slot.live:
            return -inf  # it has another schedule, or none
        base = self._base(seen, name)
        catch_up = slot.live.catch_up
        if not self._referee.leases and slot.due <= base:
            return -inf  # nothing is caught up without leases
        if slot.next_due <= base + NEAR or (slot.due <= base and base - slot.due >= catch_up - 0.5):
            return -inf  # passed before this instance was there
        if catch_up == 0 and abs(slot.due - seen.jobs[name]) < NEAR:
            return -inf  # the job came about then, by a clock that may have been a little off
        good = max(base, seen.reached + min(5.0, seen.inst.settings.heartbeat / 2))
        by_skip = max(slot.next_due, good) + SKIPPED
        by_claim = max(slot.due, good, seen.free, self.blocked.get(name, -inf)) + CLAIMED
        if seen.busy:
            by_claim = inf
        return self._world.now - min(by_skip, by_claim) - 2 * seen.inst.limit

    def _base(self, seen: Witnessed, job: str) -> float:
        """Return since when an instance is alive and awake, with this job and a right clock."""
        inst = seen.inst
        if not inst.up or inst.frozen or seen.unsure or seen.stop is not None:
            return inf
        if job not in seen.jobs or self._referee.store.slow:
            return inf
        apart = inst.host.wall() - self._referee.store.time.wall_ms() / 1000
        if abs(apart) > NEAR:
            seen.clock = self._world.now
            return inf
        return max(seen.started, seen.awake, seen.clock, seen.jobs[job])

    # --- runs ---

    def _check_run(self, truth: RunTruth) -> None:
        terms, job = truth.terms, truth.key.job
        if terms is None or job not in self.jobs:
            return
        now, steady = self._world.now, self._referee.store.steady
        since = truth.extended
        if truth.state == "running":
            since = now - (self._referee.store.lease_now() - truth.until)
            if since > now:
                return
            self.blocked[job] = now
        if self.paused(job):
            self.unpaused[job] = now
            return
        for seen in self._referee.living:
            self._check_backup(truth, since, seen, steady=steady)

    def _check_backup(
        self, truth: RunTruth, since: float, seen: Witnessed, *, steady: bool
    ) -> None:
        """An instance in good shape, with a free worker, takes the run on in time."""
        settings, job = seen.inst.settings, truth.key.job
        if (
            job not in seen.jobs
            or seen.busy
            or seen.inst.keeper_delay
            or any(lease.key == truth.key for lease in seen.inst.handlers)
        ):
            return
        good = max(
            self._base(seen, job),
            seen.reached + min(5.0, settings.heartbeat / 2),
            seen.free,
            self._known(truth, seen),
            self._referee.ended_at.get(truth.key, -inf),  # until then its handler may live here
            self.unpaused.get(job, -inf),
        )
        beats = 2.0
        start = 2 * settings.heartbeat
        if truth.state == "running" and not steady:
            beats = 3.0
            lease = truth.terms.lease_ms / 1000  # that of the owner, whose settings may differ
            start = lease - max(lease / 10, 0.25) + settings.heartbeat
            start = max(start, beats * settings.heartbeat)
        bound = max(since + beats * settings.heartbeat, good + start)
        if not steady:
            lease = max(settings.lease, truth.terms.lease_ms / 1000)
            bound = max(bound, self._ledger.stepped_at + lease + 3 * settings.heartbeat)
        late = self._world.now - bound - SLACK - TRIPS * seen.inst.host.trip
        if late > 0:
            name = "hand-over-bound" if truth.state == "waiting" else "crash-bound"
            text = f"{truth.key} is {truth.state} since {since:.2f} s, attempt {truth.attempt};"
            self._world.fail(name, f"{text} {seen.inst} is {late:.2f} s too late")

    def _known(self, truth: RunTruth, seen: Witnessed) -> float:
        """Return since when this instance must know of the run, told or not."""
        told = truth.known.get(seen.inst.token, inf)
        dues = self.dues.get(seen.lives[truth.key.job], [])
        # A schedule that raised has no slots, and so no claims whose answers name the run.
        since = max(truth.opened, self.doubtful.get(truth.key.job, -inf))
        second = bisect_left(dues, since) + 1
        return min(told, dues[second] + SKIPPED if second < len(dues) else inf)
