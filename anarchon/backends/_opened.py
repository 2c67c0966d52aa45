"""What every store has in common: who has it open, and in which process.

A store is opened by each scheduler that uses it, and closed as often. What came through a
fork belongs to the parent process: it is forgotten, and neither used nor closed.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from .._values import Limits
from ..errors import BackendUnavailable
from ._storable import checked_namespace
from .base import LeaseBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._values import ServerInfo


class Closable(Protocol):
    """A connection."""

    def close(self) -> None:
        """Close it, without a wait; never raises."""
        ...


class Opened(LeaseBackend):
    """A store that counts its users. `open`, `close` and `abandon` may come from any thread."""

    def __init__(self, namespace: str) -> None:
        self.namespace = checked_namespace(namespace)
        self._limits = Limits()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._users = 0

    @abstractmethod
    def _connect(self) -> ServerInfo:
        """Make sure that the store can be used, within the limits."""

    def _left_over(self) -> Sequence[Closable]:
        """Give up the connections that nobody is using; called with the guard."""
        return ()

    def open(self, limits: Limits) -> ServerInfo:
        """Count one user more; see `ClaimBackend.open`.

        Whoever opens closes, also when this raises: the count is of calls, not of successes.
        """
        self._notice_fork()
        self._limits = limits
        with self._guard:
            self._users += 1
        return self._connect()

    def close(self) -> None:
        """Close the connections when the last user goes; never raises."""
        self._notice_fork()
        with self._guard:
            self._users = max(0, self._users - 1)
            links = () if self._users else self._left_over()
        for link in links:
            link.close()

    def abandon(self) -> None:
        """Forget every connection, lock and user: this is a forked child, and none is its own."""
        self._begin()

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            self.abandon()

    def _check_open(self) -> None:
        self._notice_fork()
        if not self._users:
            raise BackendUnavailable(
                f"{self!r} is not open: start() opens it, and after stop() nothing is asked of it."
            )
