"""One connection through a proxy: its two ends, and what they still have to send."""

from __future__ import annotations

import collections
import contextlib
import selectors
import socket
import struct
from typing import NamedTuple

PIECE = 65_536
MOST_WAITING = 64  # pieces; with more, an end is not read: TCP then slows the sender down
LINGER_0 = struct.pack("ii", 1, 0)  # closing then sends RST instead of FIN


class Waiting(NamedTuple):
    """Bytes to send when the clock says `due`; none mean that there are no more."""

    due: float
    data: bytes


class End:
    """One side of a link, `link.client` or `link.server`; its peer is the other side."""

    def __init__(self, link: Link, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self.sock = sock
        self.waiting: collections.deque[Waiting] = collections.deque()
        self.has_ended = False  # it sends no more
        self.is_broken = False  # it has sent RST

    @property
    def peer(self) -> End:
        return self.link.server if self is self.link.client else self.link.client

    def receive(self) -> bytes | None:
        """Return what has come, b"" at its end, None when there is nothing yet."""
        try:
            data = self.sock.recv(PIECE)
        except BlockingIOError:
            return None
        except OSError:
            data, self.is_broken = b"", True
        self.has_ended = not data
        return data

    def send(self, due: float, data: bytes) -> None:
        self.waiting.append(Waiting(due, data))

    def flush(self, now: float) -> None:
        """Send what is due, as much as the other side takes."""
        while self.waiting and self.waiting[0].due <= now and not self.link.is_closed:
            due, data = self.waiting.popleft()
            try:
                if not data:
                    self.sock.shutdown(socket.SHUT_WR)
                    continue
                sent = self.sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.link.reset()
                return
            if sent < len(data):
                self.waiting.appendleft(Waiting(due, data[sent:]))
                return

    def wants(self, now: float) -> int:
        """Return the events that it waits for."""
        reads = not self.has_ended and len(self.peer.waiting) < MOST_WAITING
        writes = self.waiting and self.waiting[0].due <= now
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)


class Link:
    """A client's connection and the one that was made to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = End(self, client)
        self.server = End(self, server)
        self.is_black = False  # it lost bytes: no more pass, and no end is passed on
        self.is_cut = False  # both sides are told the end, and no more passes
        self.is_closed = False  # the relay closes its sockets

    @property
    def ends(self) -> tuple[End, End]:
        return self.client, self.server

    def is_over(self) -> bool:
        """Say whether both sides ended and have all that was sent to them."""
        return not self.is_black and all(end.has_ended and not end.waiting for end in self.ends)

    def is_idle(self) -> bool:
        """Say whether nothing is under way."""
        return not any(end.waiting for end in self.ends)

    def blacken(self) -> None:
        """Lose what is under way, and all that will come."""
        self.is_black = True
        for end in self.ends:
            end.waiting.clear()

    def reset(self) -> None:
        """Break it on both sides with RST."""
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        self.is_closed = True
