"""What a scheduler counts of itself, and who counts along, such as `anarchon.contrib.prometheus`.

Numbers alone, kept whether or not anybody ever looks at them, so they cost next to nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._runs import Run
    from ._values import RunEvent

# What a running scheduler asks its store, by the names of the backend's methods.
Operation: TypeAlias = Literal[
    "open",
    "claim",
    "skip",
    "finish",
    "release",
    "record_manual",
    "unfinished",
    "alert",
    "renew",
    "look",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class StoreCounts:
    """How often a scheduler has asked its store, and how often that failed, by operation.

    Threads: each operation is asked, and so counted, by one thread alone; that takes no lock.
    Any thread may read.
    """

    def __init__(self) -> None:
        self.calls = dict.fromkeys(OPERATIONS, 0)
        self.errors = dict.fromkeys(OPERATIONS, 0)


class Meter(Protocol):
    """Counts along with a scheduler. What it raises is logged, and else ignored."""

    def begin(self) -> None:
        """Learn that a life of the scheduler begins in this process; on that life's thread."""
        ...

    def run(self, event: RunEvent, run: Run) -> None:
        """Learn of a run event; on the scheduler thread, so wait for nothing and take no lock."""
        ...

    def end(self) -> None:
        """Learn that nothing more comes of this life; on its thread, for a second at most."""
        ...


class Measures:
    """The counts of one scheduler, and its meters. Both outlast a stop.

    Threads: any; each change of `meters` is one step.
    """

    def __init__(self) -> None:
        self.meters: list[Meter] = []
        self._store = (os.getpid(), StoreCounts())

    def store(self) -> StoreCounts:
        """Return the counts of this process; a forked child has asked nothing yet."""
        pid, counts = self._store
        if pid != os.getpid():
            counts = StoreCounts()
            self._store = (os.getpid(), counts)
        return counts

    def tell(
        self, what: Callable[[Meter], None], failed: Callable[[str, BaseException], None]
    ) -> None:
        """Tell every meter, here and now; unlike listeners, none of them may be slow."""
        for meter in tuple(self.meters):
            try:
                what(meter)
            except Exception as error:
                failed(f"the meter {type(meter).__name__}", error)
