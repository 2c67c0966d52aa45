"""What this instance says of itself, beside the calls to the store that it makes anyway.

It goes with a claim, a renewal or the question for what is open, at most once per heartbeat, so
that a claim that is lost mostly writes nothing. It says until when the store will hear from this
instance again at the latest: one without work is not dead before that.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from heapq import nsmallest
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ._messages import Claim, Renew, Unfinished
from ._texts import clean
from ._threads_lanes import Ask
from ._values import LATEST_MS, Presence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._clock import StoreClock
    from ._core import Core
    from ._messages import JobSpec, Now, Settings, StoreCall

MOST_JOBS = 1000  # so many are named, the first in the order of their names
_ADDRESS = re.compile(r" at 0x[0-9a-f]+", re.IGNORECASE)


def fingerprint_of(spec: JobSpec) -> str:
    """Return a short text that is the same wherever a job has this schedule.

    It is only compared. A schedule of the user's is asked for its `repr`, which may raise.
    """
    schedule = getattr(spec.job, "schedule", spec.schedule)
    try:
        words = _ADDRESS.sub("", repr(schedule))
    except Exception:
        words = type(schedule).__qualname__
    return f"{zlib.crc32(words.encode(errors='replace')):08x}"


class Herald:
    """Knows what to say, and when. `begin` and `changed` may come from any thread."""

    def __init__(self, settings: Settings, core: Core, clock: StoreClock) -> None:
        self._core = core
        self._name = settings.instance_id
        self.clock = clock
        self._heartbeat_ms = round(settings.heartbeat * 1000)
        self._is_heard = False
        self._facts: dict[str, object] = {}
        self._jobs: dict[str, str] = {}
        self._count = 0
        self._changes: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
        self._is_told = False  # what seldom changes
        self._next_at = -inf

    def begin(self, specs: Iterable[JobSpec], wall: float) -> None:
        """Have a store that listens, jobs, and a time at which this instance started."""
        from socket import gethostname

        from . import __version__
        from ._tzdata import tzdata_version

        known = {spec.name: spec for spec in specs}
        self._count = len(known)
        self._jobs = {name: fingerprint_of(known[name]) for name in nsmallest(MOST_JOBS, known)}
        self._facts = {
            "name": clean(self._name, 1024),
            "host": clean(gethostname(), 255),
            "pid": os.getpid(),
            "version": __version__,
            "tzdata": tzdata_version(),
            "started": int(wall * 1000),
            "heartbeat": self._heartbeat_ms,
        }
        self._is_heard = True
        self.unheard()

    def changed(self, name: str, spec: JobSpec | None) -> None:
        """Have a job, or (None) have it no longer."""
        if self._is_heard:
            self._changes.put((name, None if spec is None else fingerprint_of(spec)))

    def ask(self, call: StoreCall, due: float, now: Now) -> Ask:
        """Return a call with what goes along: of the clocks, and perhaps of this instance."""
        return Ask(call, due, self.clock.basis(), self._words(call, now))

    def _words(self, call: StoreCall, now: Now) -> Presence | None:
        """Return what to say with a call that is made now.

        None: nobody listens, the call takes nothing along, or it was said a moment ago.
        """
        takes = isinstance(call, Claim | Unfinished | Renew)
        if not self._is_heard or not takes or now.mono < self._next_at:
            return None
        self._next_at = now.mono + self._heartbeat_ms / 1000
        self._take_changes()
        about = None if self._is_told else self._about()
        self._is_told = True
        due, running = self._core.next_due(), self._core.view().running
        state = {"next": due and due[0], "offset": self.clock.offset, "running": running}
        return Presence(self._expected_ms(now, due, running), json.dumps(state), about)

    def unheard(self) -> None:
        """The call may not have come to the store: all of it is said again with the next one."""
        self._next_at = -inf
        self._is_told = False

    def _expected_ms(self, now: Now, due: tuple[int, int | None] | None, running: int) -> int:
        """Return until when something will be said again, at the latest.

        A slot that falls due within a heartbeat is claimed without a word, and the next one isn't.
        """
        soon_ms = now.wall_ms + self._heartbeat_ms
        if running:
            return soon_ms + self._heartbeat_ms
        if due is None:
            return LATEST_MS
        slot_ms, following_ms = due
        if slot_ms >= soon_ms:
            return slot_ms
        return soon_ms + (self._heartbeat_ms if following_ms is None else following_ms - slot_ms)

    def _take_changes(self) -> None:
        while True:
            try:
                name, mark = self._changes.get_nowait()
            except Empty:
                return
            had = self._jobs.pop(name, None)
            self._count += (mark is not None) - (had is not None)
            if mark is not None and len(self._jobs) < MOST_JOBS:
                self._jobs[name] = mark
            self._is_told = False

    def _about(self) -> str:
        return json.dumps({**self._facts, "count": self._count, "jobs": self._jobs})
