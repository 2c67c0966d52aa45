"""A thread that delivers things in order, so that nobody else has to wait for it.

Log lines and events leave the scheduler through one of these each. Both end in code of
the user's (logging handlers, listeners), which may take long, raise, or wait for a lock
that the main thread holds while it waits for `stop`. None of that may reach the thread
that owns the deadlines.
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Generic, TypeVar

from ._one_process import OneProcess
from ._trays import Tray

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Outlet(Generic[T]):
    """Calls `deliver` with each item, in order, on a thread of its own.

    `put` may be called from any thread, never blocks and takes no lock. At most `bound`
    items wait; what comes on top is dropped and counted, and `dropped` is called with
    the number before the next delivery. What either of them raises goes to `failed`.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[T], object],
        *,
        bound: int,
        dropped: Callable[[int], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        self._name = name
        self._deliver = deliver
        self._bound = bound
        self._tell_dropped = dropped
        self._tell_failed = failed
        self._items: Tray[T | None] = Tray()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._thread: Thread | None = None
        self._closed = False
        self._over = False
        self._cut = False
        self._untold = 0
        self.drops = 0

    def start(self) -> None:
        """Start the thread; raises `RuntimeError` when none can be had."""
        thread = Thread(target=self._run, name=self._name, daemon=True)
        thread.start()
        self._thread = thread

    def put(self, item: T) -> bool:
        """Hand an item over, or drop it when too many wait; False when the outlet is closed."""
        if self._closed:
            return False
        if self._items.qsize() >= self._bound:
            self.drops += 1
            self._untold += 1
        else:
            self._items.put(item)
        return True

    def is_current(self) -> bool:
        """Return whether the caller is this outlet's own thread."""
        return self._thread is not None and self._thread.ident == get_ident()

    def close(self, timeout: float) -> bool:
        """Deliver what waits, then end the thread; what is left at the timeout is dropped.

        Returns whether everything was delivered in time. A delivery that hangs keeps
        its thread, which ends when the delivery does.
        """
        self._closed = True
        self._items.put(None)
        if self._thread is None:
            # It was never started, for want of a thread; what it has to say is told here.
            self._run()
            return True
        try:
            self._ended.get(timeout=max(timeout, 0.0))
        except Empty:
            self._cut = True
            return False
        self._thread.join(1.0)
        return True

    def _run(self) -> None:
        while not (self._over or self._cut):
            # Whatever another thread raises in this one strikes here: the wait has no end.
            self._guarded(self._turn)
        self._guarded(self._tell_drops)
        self._ended.put(None)

    def _turn(self) -> None:
        """Deliver the next item; one is looked at first, so that none is lost in the waiting."""
        item = self._items.first(SimpleQueue.get)
        if item is None:
            self._over = True
            return
        self._items.take()
        self._guarded(self._tell_drops)
        if not self._cut:
            self._guarded(self._deliver, item)

    def _tell_drops(self) -> None:
        if count := self._untold:
            self._untold -= count
            self._tell_dropped(count)

    def _guarded(self, call: Callable[..., object], *args: T) -> None:
        try:
            with OneProcess():
                call(*args)
        except BaseException as error:
            with suppress(BaseException):
                self._tell_failed(error)
