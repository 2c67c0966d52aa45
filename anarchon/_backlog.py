"""Bulk work beside an inbox, so that nothing urgent has to stand behind it.

Who defines ten thousand jobs and then stops must not wait until all of them are taken in.
So an inbox gets one word for all of them, and its reader a handful at a time.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Backlog(Generic[T]):
    """The newest item of each name, in the order in which they came.

    Threads: `put` is for everybody, never blocks, takes no lock and may be interrupted by
    itself; `take` and `pop` are for the one reader. `wake` brings the reader to call `take`.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._items: dict[str, T] = {}
        self._names: SimpleQueue[str] = SimpleQueue()
        self._woken = False

    def put(self, name: str, item: T) -> None:
        """Add an item, in the place of one of that name; wake the reader if need be."""
        # What is replaced may be the last word on somebody's object; it goes when all is done.
        replaced = self._items.get(name)
        self._items[name] = item
        self._names.put(name)
        if not self._woken:
            self._call()
        del replaced

    def take(self, most: int) -> list[T]:
        """Take out the oldest items, at most so many; the reader is woken for the rest."""
        self._woken = False
        taken: list[T] = []
        for _ in range(most):
            try:
                name = self._names.get_nowait()
            except Empty:
                return taken
            if (item := self.pop(name)) is not None:
                taken.append(item)
        if not self._names.empty():
            self._call()
        return taken

    def pop(self, name: str) -> T | None:
        """Take out the item of a name before its turn, if there is one."""
        return self._items.pop(name, None)

    def _call(self) -> None:
        # First the mark: a reader that wakes between the two has found what there was.
        self._woken = True
        self._wake()
