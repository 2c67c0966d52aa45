"""What the stores on a server have in common: connections, and time limits.

A subclass says how to connect, and how one `Call` is made on one connection before a
deadline.

A connection serves one call at a time. The scheduler makes at most two calls at once, so
it has at most two connections; what users ask has a short one of its own. One on which
anything went wrong is thrown away, and so is one that came through a fork.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .._values import Limits
from ..errors import BackendError, BackendUnavailable
from ._aside import aside
from ._storable import checked_namespace
from .base import LeaseBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._values import ServerInfo
    from . import _wire as wire


class Link(Protocol):
    """A connection."""

    def close(self) -> None:
        """Close it, without a word to the server that could take time; never raises."""
        ...


L = TypeVar("L", bound=Link)
T = TypeVar("T")

GRAVEYARD: list[object] = []  # connections of a parent process: neither used nor collected


class Remote(LeaseBackend, Generic[L]):
    """A store on a server, with the connections to it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = checked_namespace(namespace)
        self._limits = Limits()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._users = 0
        self._idle: list[L] = []

    # --- what a subclass says ---------------------------------------------------

    @abstractmethod
    def _connected(self, deadline: float) -> L:
        """Return a new connection to a server that may be written to.

        Deadlines are of `time.monotonic`. May raise whatever the driver raises.
        """

    @abstractmethod
    def _inspected(self, link: L, deadline: float) -> ServerInfo:
        """Check the server's version and the format of what is stored."""

    @abstractmethod
    def _prepared(self, link: L, deadline: float) -> None:
        """Create what the store needs, where it is missing."""

    @abstractmethod
    def _asked(self, link: L, call: wire.Call, deadline: float) -> wire.Reply:
        """Make one call."""

    @abstractmethod
    def _explained(self, error: Exception) -> BackendError:
        """Return an error that says what happened and what to do, and shows no password."""

    # --- lifecycle --------------------------------------------------------------

    def open(self, limits: Limits) -> ServerInfo:
        """Connect and check the server; see `ClaimBackend.open`.

        Whoever opens closes, also when this raises: the count is of calls, not of successes.
        """
        self._notice_fork()
        self._limits = limits
        with self._guard:
            self._users += 1
        deadline = time.monotonic() + limits.connect
        return aside(lambda: self._often(lambda link: self._inspected(link, deadline), deadline))

    def prepare(self, jobs: Sequence[str]) -> None:
        """Create what the store needs; jobs need nothing."""
        del jobs
        self._check_open()
        deadline = time.monotonic() + self._limits.connect
        aside(lambda: self._often(lambda link: self._prepared(link, deadline), deadline))

    def close(self) -> None:
        """Close the connections when the last user goes; never raises."""
        self._notice_fork()
        with self._guard:
            self._users = max(0, self._users - 1)
            over = not self._users
        if over:
            self._drop_idle()

    def abandon(self) -> None:
        """Forget every connection and lock without touching it: this is a forked child."""
        GRAVEYARD.append(self._idle)
        self._reset()

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            self.abandon()

    def _check_open(self) -> None:
        self._notice_fork()
        if not self._users:
            raise BackendUnavailable(
                f"{self!r} is not open: start() opens it, and after stop() nothing is asked of it."
            )

    # --- connections ------------------------------------------------------------

    def _often(self, work: Callable[[L], T], deadline: float) -> T:
        """Work on a connection that stays for the next call."""
        with self._guard:
            link = self._idle.pop() if self._idle else None
        return self._on(link, work, deadline)

    def _once(self, call: wire.Call, seconds: float) -> wire.Reply:
        """Make a call on a connection of its own, also when this backend isn't open.

        This is what users call, on the main thread perhaps, where Ctrl-C may come.
        """
        self._notice_fork()
        deadline = time.monotonic() + seconds
        return aside(
            lambda: self._on(
                None, lambda link: self._asked(link, call, deadline), deadline, keep=False
            )
        )

    def _on(
        self, link: L | None, work: Callable[[L], T], deadline: float, *, keep: bool = True
    ) -> T:
        """Work on this connection or a new one, and keep it unless anything went wrong."""
        kept, pid = False, self._pid
        try:
            if link is None:
                link = self._connected(deadline)
            answer = work(link)
            kept = keep and self._gave_back(link)
            return answer
        except (BackendError, ImportError):
            raise  # it says already what happened and what to do
        except Exception as error:
            # What ended this connection has ended the others as well, most likely, and the
            # call is repeated at once: on a new one.
            self._drop_idle()
            raise self._explained(error) from error
        finally:
            if link is not None and not kept and pid == os.getpid():
                link.close()

    def _drop_idle(self) -> None:
        with self._guard:
            links, self._idle = self._idle, []
        for link in links:
            link.close()

    def _gave_back(self, link: L) -> bool:
        """Keep a connection for the next call; False when the store was closed meanwhile."""
        with self._guard:
            if not self._users:
                return False
            self._idle.append(link)
            return True

    def _ask(self, call: wire.Call, seconds: float) -> wire.Reply:
        self._check_open()
        deadline = time.monotonic() + seconds
        return self._often(lambda link: self._asked(link, call, deadline), deadline)
