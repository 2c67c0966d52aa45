"""The live runs of others that this instance is a backup of.

A backup looks at the store once per heartbeat, and once more just after the earliest
lease end it knows. A look answers only what is wrong; what it shows as ended or handed
over is claimed. What a look doesn't list is healthy or closed, so it isn't claimed, but stays
watched with the time first seen until the store has no open run left, or a claim's answer
for the job no longer names it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from ._messages import (
        Settings,
    )
    from ._values import (
        Looked,
        OpenRun,
        RunKey,
        Wish,
    )

# A look or claim "just after" an instant that the store computed in whole milliseconds.
JUST_AFTER = 0.002
# A renewal has one end. Where leases and slots are judged by two clocks of a host, what is told of
# it may differ by what the wall clock was corrected meanwhile.
SAME_END_MS = 100


class Watch:
    """One run of somebody else: what was last seen of it, and since when."""

    __slots__ = (
        "attempt",
        "beat",
        "end_ms",
        "first_seen",
        "key",
        "mine",
        "owner",
        "ready_at",
        "refused",
        "told_at",
        "waits",
    )

    def __init__(self, run: OpenRun, received: float) -> None:
        self.key = run.key
        self.attempt = run.attempt
        self.beat = run.beat
        self.owner = run.owner
        self.end_ms = inf  # of the lease, by the store's clock
        self.first_seen = received
        self.refused: tuple[int, bool] | None = None  # what was claimed in vain, until a look

    @property
    def wants(self) -> int:
        """The attempt that a claim of this run names."""
        return self.attempt if self.mine else self.attempt + 1

    @property
    def dead(self) -> bool:
        """Whether somebody else ran it, so that it may have to be closed."""
        return not self.mine and not self.waits

    def see(
        self, run: OpenRun, received: float, store_ms: int, margin: float, *, agrees: bool
    ) -> None:
        """Take in what the store says of the run."""
        if self._is_news(run, store_ms):
            self.attempt, self.beat, self.first_seen = run.attempt, run.beat, received
            self.owner = run.owner
        self.end_ms = store_ms + run.left_ms
        self.waits = run.state == "waiting"  # it was handed over: nobody runs it
        self.mine = run.mine and not self.waits  # a win of ours whose answer was lost
        self.told_at = received  # when the store last spoke of it
        # When the next attempt may be claimed.
        self.ready_at = self._ready_at(run, received, margin, agrees=agrees)
        if self.refused == (self.attempt, self.waits):
            self.ready_at = inf

    def refuse(self) -> None:
        """Just what is there was claimed in vain: paused, or no win was left.

        Only the next look makes it ready again. Other answers may name it any number of
        times: with two such runs of a job they would be claimed in turn without end.
        """
        self.refused = (self.attempt, self.waits)
        self.ready_at = inf

    def _is_news(self, run: OpenRun, store_ms: int) -> bool:
        """Whether this is another renewal than the one seen last.

        A store that lost writes may give the same attempt to another, or count the same beat
        again: that shows in the owner, or in a lease that ends at another time. It may have
        ended already, and sooner than what was seen where the new primary's clock is behind.
        """
        if (run.attempt, run.beat, run.owner) != (self.attempt, self.beat, self.owner):
            return True
        return abs(store_ms + run.left_ms - self.end_ms) > min(run.heartbeat_ms / 2, SAME_END_MS)

    def _ready_at(self, run: OpenRun, received: float, margin: float, *, agrees: bool) -> float:
        if self.waits or self.mine:
            return received
        lease = run.lease_ms / 1000
        late_ms = run.lease_ms - run.left_ms
        if run.left_ms > 0:
            if 0 <= late_ms < 1.5 * run.heartbeat_ms:
                return inf  # it is renewed in time; when that ends, a look says so
            # Its lease still runs by the store's clock. Unchanged for a whole lease by
            # ours it has ended all the same: the store's clock may have stepped back.
            return self.first_seen + lease + JUST_AFTER
        if agrees:
            return received
        return max(received, self.first_seen + lease - margin + JUST_AFTER)


class Watches:
    """All watched runs, and when to look at them next."""

    def __init__(self, settings: Settings, rng: Random) -> None:
        self._settings = settings
        self._rng = rng
        self._runs: dict[RunKey, Watch] = {}
        self._jobs: dict[str, set[RunKey]] = {}  # what is watched, by job
        self._regular = inf  # the look that each heartbeat brings
        self._at_end = inf  # the look just after the earliest lease end

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, key: RunKey) -> bool:
        return key in self._runs

    def see(self, run: OpenRun, received: float, *, agrees: bool, store_ms: int = 0) -> Watch:
        """Become, or stay, a backup of this run, as the store saw it at `store_ms`."""
        watch = self._runs.get(run.key)
        if watch is None:
            watch = self._runs[run.key] = Watch(run, received)
            self._jobs.setdefault(run.key.job, set()).add(run.key)
        margin = max(run.lease_ms / 10_000, 0.25)
        watch.see(run, received, store_ms, margin, agrees=agrees)
        if run.state == "running" and run.left_ms > 0:
            self._at_end = min(self._at_end, received + run.left_ms / 1000 + JUST_AFTER)
        return watch

    def forget(self, key: RunKey) -> None:
        """Stop watching this run."""
        if self._runs.pop(key, None) is not None:
            keys = self._jobs[key.job]
            keys.discard(key)
            if not keys:
                del self._jobs[key.job]

    def forget_job(
        self, name: str, except_for: Iterable[RunKey] = (), known_by: float = inf
    ) -> None:
        """Stop watching the runs of a job that are not named.

        `known_by`: when the question was sent. What was heard of later may be news to
        its answer, so that stays watched.
        """
        for key in self._jobs.get(name, set()).difference(except_for):
            if self._runs[key].told_at <= known_by:
                self.forget(key)

    def knows(self, key: RunKey, mono: float) -> bool:
        """Whether a question of that instant can have an answer that is news of this run."""
        watch = self._runs.get(key)
        return watch is not None and watch.told_at <= mono

    def refreshed(self, wish: Wish) -> Wish:
        """Return a wish that says since when the run is known as it is known now."""
        watch = self._runs.get(wish.key)
        if watch is None or wish.first_seen is None:
            return wish
        return wish._replace(first_seen=max(wish.first_seen, watch.first_seen))

    def clear(self) -> None:
        """Stop watching."""
        self._runs.clear()
        self._jobs.clear()
        self._regular = self._at_end = inf

    def ready(self, mono: float) -> list[Watch]:
        """Return the runs whose next attempt may be claimed now, oldest slot first."""
        found = [watch for watch in self._runs.values() if watch.ready_at <= mono]
        return sorted(found, key=lambda watch: watch.key.slot_ms)

    def asked(self, keys: Iterable[RunKey]) -> None:
        """Note that these were claimed: the next look decides whether they are again."""
        for key in keys:
            if key in self._runs:
                self._runs[key].ready_at = inf

    def jobs(self) -> tuple[str, ...]:
        """Return the jobs that have a watched run."""
        return tuple(sorted(self._jobs))

    # --- looks ---

    def plan(self, mono: float, *, needed: bool) -> None:
        """Keep a look planned while anything is watched, or while it is needed."""
        if not self._runs and not needed:
            self._regular = self._at_end = inf
        elif self._regular == inf:
            # A random phase: a fleet of backups sees a hand-over the sooner.
            self._regular = mono + self._settings.heartbeat * self._rng.uniform(0.1, 1.0)

    def look_due(self) -> float:
        """Return the instant of the next look."""
        return min(self._regular, self._at_end)

    def look_sent(self, mono: float) -> None:
        """Plan the look after the one that is sent now."""
        self._at_end = inf
        if self._regular <= mono:
            self._regular = mono + self._settings.heartbeat * self._rng.uniform(0.9, 1.1)

    def look_failed(self, mono: float) -> None:
        """The look got no answer: it is due again at once."""
        self._regular = mono

    def looked(self, looked: Looked, sent: float, received: float) -> None:
        """Take in how much is open, and when the earliest lease ends; before what is listed."""
        listed = {run.key for run in looked.wrong}
        for key, watch in list(self._runs.items()):
            if key in listed:
                watch.refused = None
                continue
            if watch.told_at > sent:  # younger than this answer
                continue
            watch.ready_at = inf
            if looked.others == 0:
                self.forget(key)
        if looked.next_end_ms is not None:
            end = received + looked.next_end_ms / 1000 + JUST_AFTER
            self._at_end = min(self._at_end, end)

    def wakeups(self) -> Iterator[float]:
        """Yield the instants at which a watched run may be claimed."""
        for watch in self._runs.values():
            yield watch.ready_at
