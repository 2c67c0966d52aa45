"""The calls to the store: which is in flight, which comes next, and when.

Pure. There are two places, each with one call at a time. The *lane* has what is decided
here: ends first, so that nobody waits for a result that is known, claims last. The
*keeper* has renewals and looks, which never wait behind the lane. An outage shuts the gate
of each kind of call for a while; nothing is tried meanwhile that isn't needed.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from ._core_backoff import Outage
from ._messages import (
    Alert,
    Claim,
    Finish,
    Look,
    RecordManual,
    Release,
    Renew,
    Skip,
    StoreDown,
    Unfinished,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from ._core_attempts import Attempts
    from ._core_backoff import Backoff
    from ._core_held import HeldRuns
    from ._core_race import Race
    from ._messages import (
        Action,
        KeeperCall,
        LaneCall,
        Now,
        Settings,
        StoreCall,
    )

BATCH = 512


class Calls:
    """Sends what has become due, and keeps what has to be sent again."""

    def __init__(
        self,
        settings: Settings,
        held: HeldRuns,
        attempts: Attempts,
        race: Race,
        rng: Random,
        out: list[Action],
    ) -> None:
        self._settings = settings
        self._held = held
        self._attempts = attempts
        self._race = race
        self._out = out
        self.outage = Outage(settings.heartbeat, rng)
        self.lane: LaneCall | None = None
        self.keeper: KeeperCall | None = None
        self._unlisted: dict[str, None] = {}  # jobs whose open runs have to be asked for
        self._renew_at = inf
        self._commands_at = inf  # the next look for what the fleet is asked for
        self._after_manual = False  # the last call of the lane was only about manual runs
        self._write_failed = False  # and has to be sent again: a look proves nothing then

    @property
    def settled(self) -> bool:
        """Whether nothing is owed to the store, or awaited from it."""
        flying = self.lane is not None or self.keeper is not None
        return not (flying or self._race.undecided or self._queued())

    @property
    def hopeless(self) -> bool:
        """Whether the store can't be reached, and no end waits for it."""
        return self.outage.on and not self._queued()

    # --- open runs ---

    def list_jobs(self, jobs: Iterable[str]) -> None:
        """Ask the store which runs of these jobs are open."""
        if self._settings.leases:
            self._unlisted.update(dict.fromkeys(jobs))

    def listed(self, jobs: Iterable[str]) -> None:
        """The store is asked which runs of these jobs are open, or nobody cares any more."""
        for name in jobs:
            self._unlisted.pop(name, None)

    def stop(self) -> None:
        """Ask for no open runs any more, nor for what the fleet is asked for."""
        self._unlisted.clear()
        self._commands_at = inf

    # --- what became of a call ---

    def landed(self, call: StoreCall) -> None:
        """A call was answered, or never will be."""
        if isinstance(call, Renew | Look):
            self.keeper = None
        else:
            self.lane = None

    def renewed(self, sent: float) -> None:
        """Leases were renewed by a call sent then."""
        self._renew_at = sent + self._settings.heartbeat

    def failed(self, call: StoreCall, error: BaseException, now: Now) -> None:
        """A call got no answer: it has to be sent again."""
        self.landed(call)
        self._write_failed = self._write_failed or _writes(call)
        if isinstance(call, Look):
            self._race.watches.look_failed(now.mono)
        elif isinstance(call, Claim):
            self._race.failed(call)
        elif isinstance(call, Unfinished):
            self.list_jobs(name for name in call.jobs if name in self._race.slots.jobs)
        if self.outage.begins(self._gate_of(call), now.mono):
            self._out.append(StoreDown(error))

    def ends_outage(self, call: StoreCall) -> bool:
        """A call was answered; what failed before and isn't needed any more doesn't count.

        A store may answer looks and refuse to write, as a file does that is locked.
        """
        if _writes(call):
            self._write_failed = False
        elif self._write_failed and not isinstance(call, Renew):
            return False
        if not self._held.renewable():
            self.outage.renewals.answered()
        return self.outage.ends(self._gate_of(call))

    def _gate_of(self, call: StoreCall) -> Backoff:
        return self.outage.renewals if isinstance(call, Renew) else self.outage.calls

    # --- sending ---

    def send(self, now: Now, *, stopping: bool) -> None:
        """Send what is due, where nothing is in flight."""
        if self.keeper is None:
            self.keeper = self._next_renewal(now) or self._next_look(now, stopping=stopping)
            if self.keeper is not None:
                self._out.append(self.keeper)
        if self.lane is None and self.outage.calls.is_open(now.mono):
            self.lane = self._next_lane_call(now, stopping=stopping)
            if self.lane is not None:
                self._out.append(self.lane)

    def wakeups(self, now: Now) -> list[float]:
        """Return the monotonic instants at which something may have to be sent or planned."""
        gate = self.outage.calls.until
        times: list[float] = []
        if self.keeper is None:
            times.append(max(self._renew_at, self.outage.renewals.until))
            times.append(max(self._race.watches.look_due(), gate))
            times.append(max(self._commands_at, gate))
        if self.lane is not None:
            times.extend(self._race.slots.wakeups(now))
        elif self._queued():
            times.append(gate)
        else:
            times.extend(max(at, gate) for at in self._race.wakeups(now))
        return times

    def _next_renewal(self, now: Now) -> Renew | None:
        leases = self._held.renewable() if self._settings.leases else ()
        if not leases:
            self._renew_at = inf
        elif self._renew_at == inf:
            self._renew_at = now.mono + self._settings.heartbeat
        elif self._renew_at <= now.mono and self.outage.renewals.is_open(now.mono):
            return Renew(leases)
        return None

    def _next_look(self, now: Now, *, stopping: bool) -> Look | None:
        """Look when a run of others is watched, and when no worker here could claim one."""
        watches = self._race.watches
        saturated = self._settings.leases and self._held.free_workers() == 0
        watches.plan(now.mono, needed=saturated and not stopping)
        asks = not stopping and self._commands_due(now.mono)
        if not (asks or watches.look_due() <= now.mono) or not self.outage.calls.is_open(now.mono):
            return None
        watches.look_sent(now.mono)
        if asks:
            self._commands_at = inf
        return Look(tuple(self._race.slots.jobs) if saturated or asks else watches.jobs())

    def _commands_due(self, mono: float) -> bool:
        """Whether a period has passed since the last look for commands, if there are any."""
        period = self._settings.control
        if period is None or not self._settings.leases or not self._race.slots.jobs:
            self._commands_at = inf
        elif self._commands_at == inf:
            self._commands_at = mono + period
        return self._commands_at <= mono

    def _queued(self) -> bool:
        attempts = self._attempts
        ours = attempts.finishes or attempts.releases or attempts.manuals
        return bool(ours or self._unlisted or self._race.slots.expected.late)

    def _next_lane_call(self, now: Now, *, stopping: bool) -> LaneCall | None:
        """Ends come first and claims last, but what manual runs need takes turns with the rest.

        Nothing bounds how many of them come one after another.
        """
        attempts = self._attempts
        if any(not lease.key.manual for lease in attempts.finishes):
            return Finish(tuple(attempts.finishes.values())[:BATCH])
        if attempts.releases:
            return Release(tuple(attempts.releases.values())[:BATCH])
        after_manual, self._after_manual = self._after_manual, False
        if after_manual and (call := self._next_other(now, stopping=stopping)) is not None:
            return call
        if (manual := self._next_manual()) is not None:
            self._after_manual = True
            return manual
        return None if after_manual else self._next_other(now, stopping=stopping)

    def _next_manual(self) -> LaneCall | None:
        attempts = self._attempts
        if attempts.finishes:
            return Finish(tuple(attempts.finishes.values())[:BATCH])
        if attempts.manuals:
            return RecordManual(tuple(attempts.manuals.values())[:BATCH])
        return None

    def _next_other(self, now: Now, *, stopping: bool) -> LaneCall | None:
        missed, known = self._race.slots.missed, self._race.unknown is None
        if known:  # else that comes first: its lease may be running
            if skips := missed.ready(BATCH):
                return Skip(skips)
            if self._unlisted:
                jobs = tuple(islice(self._unlisted, BATCH))
                self.listed(jobs)  # what is asked about again meanwhile is news to this call
                return Unfinished(jobs)
        if (claim := self._race.next_claim(now, stopping=stopping)) is not None:
            return claim
        if known and (late := self._race.slots.expected.late):
            return Alert(tuple(islice(late.values(), BATCH)))
        # What looks for its place may take many calls, for which nobody should wait.
        return Skip(skips) if known and (skips := missed.seeking(BATCH)) else None


def _writes(call: StoreCall) -> bool:
    return not isinstance(call, Look | Unfinished | Renew)
