"""What the stores on a server have in common: connections, and time limits.

A subclass says how to connect, and how one `Call` is made on one connection before a
deadline.

A connection serves one call at a time. The scheduler makes at most two calls at once, so it
keeps at most two connections; what users ask has a short one of its own, and handlers that
save checkpoints may have one each for that moment. One on which anything went wrong is thrown
away, and so is one that came through a fork.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from ..errors import BackendError
from ._aside import aside
from ._opened import Closable, Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._values import ServerInfo
    from . import _wire as wire


L = TypeVar("L", bound=Closable)
T = TypeVar("T")

MOST_IDLE = 2
GRAVEYARD: list[object] = []  # connections of a parent process: neither used nor collected


class Remote(Opened, Generic[L]):
    """A store on a server, with the connections to it."""

    def _begin(self) -> None:
        super()._begin()
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

    def _connect(self) -> ServerInfo:
        deadline = time.monotonic() + self._limits.connect
        return aside(lambda: self._often(lambda link: self._inspected(link, deadline), deadline))

    def prepare(self, jobs: Sequence[str]) -> None:
        """Create what the store needs; jobs need nothing."""
        del jobs
        self._check_open()
        deadline = time.monotonic() + self._limits.connect
        aside(lambda: self._often(lambda link: self._prepared(link, deadline), deadline))

    def abandon(self) -> None:
        """Forget every connection and lock without touching it: this is a forked child."""
        GRAVEYARD.append(self._idle)
        super().abandon()

    def _left_over(self) -> list[L]:
        links, self._idle = self._idle, []
        return links

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
            links = self._left_over()
        for link in links:
            link.close()

    def _gave_back(self, link: L) -> bool:
        """Keep a connection for the next call; False when that is not to be.

        The store was closed meanwhile; or handlers asked, many at once perhaps, and what the
        scheduler itself needs is there already.
        """
        with self._guard:
            if not self._users or len(self._idle) >= MOST_IDLE:
                return False
            self._idle.append(link)
            return True

    def _ask(self, call: wire.Call, seconds: float) -> wire.Reply:
        self._check_open()
        deadline = time.monotonic() + seconds
        return self._often(lambda link: self._asked(link, call, deadline), deadline)
