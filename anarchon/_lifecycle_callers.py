"""Where a call comes from: nobody may wait for what waits for him.

A stop waits for handlers and listeners, and everything waits for the scheduler's own
threads. Code of the user's runs on all of these: handlers, listeners, functions given to
`on_abort`, schedules, and whatever `__del__` comes with an object that is let go of there.
Threads are told by what they are, never by their names, which anybody may use.
"""

from __future__ import annotations

from enum import Enum, auto
from threading import current_thread
from typing import TYPE_CHECKING

from ._named import NamedTuple

if TYPE_CHECKING:
    from ._lifecycle import Life
    from ._values import Lease


class Place(Enum):
    """Where a call comes from, as one life of a scheduler sees it."""

    OUTSIDE = auto()
    HANDLER = auto()
    LISTENER = auto()  # or a logging handler that is called from this life
    ABORT = auto()  # a function given to `on_abort`, which its handler waits for
    OWN = auto()  # a thread that everything waits for


class Caller(NamedTuple):
    """Who calls; `lease` is the run of a handler."""

    place: Place
    lease: Lease | None = None

    @property
    def may_wait(self) -> bool:
        """Whether the end of the life doesn't wait for the caller."""
        return self.place is Place.OUTSIDE


def caller_of(life: Life) -> Caller:
    """Return who is calling on this thread; takes no lock."""
    from ._signal import AbortThread

    engine, thread = life.engine, current_thread()
    if engine is not None:
        if (lease := engine.current_lease()) is not None:
            return Caller(Place.HANDLER, lease)
        if isinstance(thread, AbortThread) and thread.switch in engine.switches:
            return Caller(Place.ABORT)
        if engine.is_engine_thread():
            return Caller(Place.OWN)
    if life.journal.is_current():
        return Caller(Place.LISTENER)
    return Caller(Place.OWN if life.thread.is_current() else Place.OUTSIDE)


def refuse_own(life: Life, what: str) -> None:
    """Raise `RuntimeError` on a thread that can't wait for anything of the scheduler's."""
    if caller_of(life).place is Place.OWN:
        raise RuntimeError(
            f"{what} was called by a schedule or by a __del__, on a thread that the scheduler"
            " itself waits for; call it on a thread of your own"
        )
