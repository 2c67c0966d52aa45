"""A TCP proxy in front of a server, which fails in the ways in which networks do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.processes import free_port
from tests.servers.relay import Mode, Relay

if TYPE_CHECKING:
    from tests.servers.links import Link


class Counts(NamedTuple):
    """What went through: connections accepted so far and open now, and bytes passed on."""

    accepted: int
    open: int
    bytes_to_server: int
    bytes_to_client: int


class Proxy:
    """Listens on `host` and `port` for a server, which is anything with `host` and `port`.

    One thread does all the work; the methods may be called from any other. What a method says
    is in force when it returns, and replaces what was before. A connection that lost bytes
    never passes any again. The end of a `with` breaks and closes everything.
    """

    host = "127.0.0.1"

    def __init__(self, server) -> None:
        self.port = free_port()
        self._relay = Relay((self.host, self.port), server)
        self._relay.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def close(self) -> None:
        """Break what is open and stop listening; harmless when it was done."""
        self._relay.stop()

    @property
    def counts(self) -> Counts:
        relay = self._relay
        return relay.call(
            lambda: Counts(relay.accepted, len(relay.links), relay.bytes[True], relay.bytes[False])
        )

    def passing(self) -> None:
        """Pass everything on, as at first."""
        self._switch(Mode())

    def delay(self, seconds: float) -> None:
        """Pass everything on, each piece later by so much, in either direction."""
        self._switch(Mode(lag=seconds))

    def drop(self) -> None:
        """Close new connections as soon as they are made; old ones pass."""
        self._switch(Mode(drops=True))

    def refuse(self) -> None:
        """Refuse new connections; old ones pass."""
        self._switch(Mode(listens=False))

    def black_hole(self) -> None:
        """Accept connections and lose all that comes, both ways; nobody is told an end."""
        self._switch(Mode(_swallow))
        links = self._relay.links
        self._relay.call(lambda: [link.blacken() for link in links if not link.is_idle()])

    def half_open(self) -> None:
        """Lose all that comes through old connections, with nobody told an end; new ones pass."""
        self._switch(Mode())
        self._relay.call(lambda: [link.blacken() for link in self._relay.links])

    def reset(self) -> None:
        """Answer every request with RST, unread; new connections are accepted."""
        self._switch(Mode(_reset_requests))

    def reset_all(self) -> None:
        """Break all connections with RST now; what is in force for new ones stays."""
        self._relay.call(self._relay.reset_all)

    def cut_after(self, count: int) -> None:
        """Close each connection once so many more bytes have gone to its client."""
        self._switch(Mode(Cut(count)))

    def swallow_reply(self, *, containing: bytes = b"", hang: bool = False) -> threading.Event:
        """Pass the next request that has these bytes in one piece, and lose its reply.

        Then its connection is reset or, with `hang`, stays open without a byte. All others pass.
        Returns an event that is set when the reply was lost.
        """
        lost = LostReply(containing, hang)
        self._switch(Mode(lost))
        return lost.happened

    def _switch(self, mode: Mode) -> None:
        self._relay.call(lambda: self._relay.switch(mode))


def _swallow(link: Link, to_server: bool, data: bytes) -> bytes:
    link.blacken()
    return b""


def _reset_requests(link: Link, to_server: bool, data: bytes) -> bytes:
    if to_server and data:
        link.reset()
    return data


class Cut:
    """Lets `count` bytes go to each client, then tells both sides the end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._gone: dict[Link, int] = {}

    def __call__(self, link: Link, to_server: bool, data: bytes) -> bytes:
        if to_server:
            return data
        passed = data[: self._count - self._gone.get(link, 0)]
        self._gone[link] = self._gone.get(link, 0) + len(passed)
        link.is_cut = self._gone[link] == self._count
        return passed


class LostReply:
    """Chooses the first request with `containing` in it, and loses its reply."""

    def __init__(self, containing: bytes, hang: bool) -> None:
        self.happened = threading.Event()
        self._containing = containing
        self._hang = hang
        self._link: Link | None = None

    def __call__(self, link: Link, to_server: bool, data: bytes) -> bytes:
        if to_server and self._link is None and data and self._containing in data:
            self._link = link
        elif data and not to_server and link is self._link and not self.happened.is_set():
            if self._hang:
                link.blacken()
            else:
                link.reset()
            self.happened.set()
            return b""
        return data
