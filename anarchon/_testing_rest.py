"""How a manual clock knows that everything has come to rest.

Every thread of an engine waits on the clock when it has nothing to do. When all of them
do, a *mark* is put behind whatever lies in each one's queue. If all marks come out and
nobody took anything else meanwhile, then nobody was busy and nothing was on its way at
that moment.
"""

from __future__ import annotations

import time
from threading import Condition, RLock, current_thread
from typing import TYPE_CHECKING

from ._clock import ENGINE_PATIENCE

if TYPE_CHECKING:
    from queue import SimpleQueue
    from threading import Thread

_LOOK_AGAIN = 0.002  # real seconds: a thread that ends doesn't say so
# What a look costs of our patience at most: on a machine that is too busy to let us look,
# it doesn't let the others work either.
_LONGEST_LOOK = 0.01


class Place:
    """Somebody's wait: on which queue, until when, and the last mark that came out."""

    def __init__(self, queue: SimpleQueue[object], deadline: float, number: int) -> None:
        self.queue = queue
        self.deadline = deadline
        self.number = number
        self.by_wall = False  # it waits for a wall time
        self.marked = 0
        self.woken = False


class Mark:
    """What the clock puts into a queue: a sign of rest, or the end of a wait."""

    def __init__(self, place: Place, round_number: int) -> None:
        self.place = place
        self.round_number = round_number  # 0: the wait is over


class _Member:
    """A thread that counts as busy unless it waits on the clock."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.spent = 0.0  # of the patience, in real seconds

    @property
    def given_up(self) -> bool:
        """Whether it is blocked by something else, as far as we can tell."""
        return self.spent > self.patience

    def forgive(self) -> None:
        """Have patience again."""
        self.spent = 0.0


class Rest:
    """The threads that count, where they wait, and whether all of them are at rest."""

    def __init__(self) -> None:
        self._lock = Condition(RLock())
        self._members: dict[Thread, _Member] = {}
        self._places: dict[Thread, Place] = {}
        self._moves = 0
        self._round = 0
        self._looked_at = time.monotonic()

    def enrol(self, thread: Thread, *, patience: float = ENGINE_PATIENCE) -> None:
        """Count a thread as busy whenever it doesn't wait here, also before its start."""
        with self._lock:
            self._members[thread] = _Member(patience)
            self._moves += 1
            starter = self._members.get(current_thread())
            if starter is not None:  # it took its time, but goes on
                starter.forgive()

    def dismiss(self, thread: Thread) -> None:
        """Count a thread no more: it could not be started."""
        with self._lock:
            self._members.pop(thread, None)
            self._moves += 1
            self._lock.notify_all()

    def _forgive(self) -> None:
        """Have patience again with handlers that were busy with something else."""
        with self._lock:
            for member in self._members.values():
                member.forgive()

    def _settle(self) -> None:
        """Wait until nobody is busy and nothing is on its way."""
        with self._lock:
            while True:
                if self._busy() or any(place.woken for place in self._places.values()):
                    self._lock.wait(_LOOK_AGAIN)
                elif self._is_quiet():
                    return

    def _busy(self) -> bool:
        """Say whether a thread is busy that we still have patience with."""
        now = time.monotonic()
        passed = min(now - self._looked_at, _LONGEST_LOOK)
        self._looked_at = now
        busy = False
        for thread, member in list(self._members.items()):
            if thread.ident is None:  # about to start: its time hasn't begun
                busy = True
            elif not thread.is_alive():
                del self._members[thread]
            elif thread not in self._places and not member.given_up:
                member.spent += passed
                busy = busy or not member.given_up
        return busy

    def _is_quiet(self) -> bool:
        """Put a mark into every queue; quiet is when all come out and nobody moved."""
        moves = self._moves
        self._round += 1
        places = [place for thread, place in self._places.items() if thread in self._members]
        for place in places:
            place.queue.put(Mark(place, self._round))
        while self._moves == moves and any(place.marked < self._round for place in places):
            self._lock.wait(_LOOK_AGAIN)
        return self._moves == moves
