"""Forks beside SQLite: none happens while a thread of ours is inside the library.

SQLite has locks of its own, one set for the whole process. A forked child gets them as
they are: one that another thread held at that moment is held there for ever, and the
child's next call of SQLite never returns. So a fork waits until no call is under way, and
calls wait for the fork. What else in the process uses SQLite is none of this.

Nor does a child get a connection of ours: all are closed before the fork, and made again
when they are next used. With an inherited one SQLite takes the child for somebody who has
the file locked already, as its parent has. So the child would lock nothing, and when the
parent ends, the log would be removed under it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A commit takes as long as the disk does; a fork that waited longer than this goes on.
LONGEST_WAIT = 2.0


class _Inside:
    """Entered around calls of SQLite, by any thread; a thread may enter it again inside."""

    def __init__(self) -> None:
        self._here = threading.local()
        self.close_all: Callable[[], None] | None = None  # called before a fork
        self._renew(0)

    def __enter__(self) -> None:
        depth = self._depth()
        if not depth:
            self._come_in()
        self._here.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._here.depth = depth = self._depth() - 1
        if not depth:
            self._go_out()

    def leave(self) -> bool:
        """Be outside for a while, where this thread is inside; say whether it was."""
        if self._depth():
            self._go_out()
            return True
        return False

    def come_back(self) -> None:
        """Be inside again, after `leave`."""
        self._come_in()

    def before_fork(self) -> None:
        with self._changed:
            self._forks += 1
            own = bool(self._depth())
            alone = self._changed.wait_for(lambda: self._threads <= own, LONGEST_WAIT)
        if alone and not own and self.close_all is not None:
            self.close_all()

    def after_in_parent(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def after_in_child(self) -> None:
        self._renew(int(bool(self._depth())))

    def _renew(self, threads: int) -> None:
        # Reentrant: closing a connection may come in the middle of this, as garbage.
        self._changed = threading.Condition(threading.RLock())
        self._threads = threads
        self._forks = 0

    def _depth(self) -> int:
        depth: int = getattr(self._here, "depth", 0)
        return depth

    def _come_in(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forks, LONGEST_WAIT)
            self._threads += 1

    def _go_out(self) -> None:
        with self._changed:
            self._threads -= 1
            if self._forks:
                self._changed.notify_all()


inside = _Inside()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=inside.before_fork,
        after_in_parent=inside.after_in_parent,
        after_in_child=inside.after_in_child,
    )
