"""What one thread has to do, handed to it by others."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Tray(Generic[T]):
    """Items for one thread, each of which stays until that thread has dealt with it.

    A thread that waits inside a queue's `get` can lose the item: an exception that another
    thread raises in it (`PyThreadState_SetAsyncExc`) strikes when the item has been taken
    out and is nowhere else yet. So an item is looked at, dealt with, and only then taken.

    Threads: `put` and `qsize` are for everybody and take no lock, also in a signal handler;
    the rest belongs to the one thread. What is called to wait waits at a queue, and returns
    None when that took too long.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell: SimpleQueue[bool] = SimpleQueue()

    def qsize(self) -> int:
        """Return how many items are here."""
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item."""
        try:
            self._items.append(item)
        finally:
            # An exception of a signal handler's comes here, and must not leave the thread asleep.
            self._bell.put(True)

    def first(self, wait: Callable[[SimpleQueue[bool]], object]) -> T:
        """Return the first item, and leave it here; `wait` waits without a limit."""
        while not self._items:
            wait(self._bell)
        return self._items[0]

    def next(self, wait: Callable[[SimpleQueue[bool]], bool | None]) -> T | None:
        """Take the first item out and return it; None when `wait` ends without one."""
        while not self._items:
            if wait(self._bell) is None:
                return None
        item = self._items[0]
        self.take()
        return item

    def take(self) -> None:
        """Take the first item out: it was dealt with."""
        self._items.popleft()
        # One ring less, so that rings don't pile up while there is always something to do.
        with suppress(Empty):
            self._bell.get_nowait()
