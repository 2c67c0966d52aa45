"""The thread of a proxy: it accepts, reads and sends as the mode in force says."""

from __future__ import annotations

import queue
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.links import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.links import End

CALL_SECONDS = 10.0
READ = selectors.EVENT_READ


def pass_on(link: Link, to_server: bool, data: bytes) -> bytes:
    return data


class Mode(NamedTuple):
    """What happens: to new connections, and to what comes through all.

    `take` is called with a link, whether bytes go to the server, and the bytes, none at their
    end. It returns what passes, `lag` seconds later, or does something to the link.
    """

    take: Callable[[Link, bool, bytes], bytes] = pass_on
    lag: float = 0.0
    listens: bool = True
    drops: bool = False


class Relay:
    """Works in a thread of its own from `start` to `stop`; all but `call` is that thread's."""

    def __init__(self, address: tuple[str, int], target) -> None:
        self.mode = Mode()
        self.links: set[Link] = set()
        self.accepted = 0
        self.bytes = {True: 0, False: 0}  # those passed on, by whether they go to the server
        self._address = address
        self._target = target
        self._busy: set[Link] = set()  # those with something to send, or to look at again
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ear, READ)
        self._is_listening = False
        self._listener = self._bound()
        self._is_open = True
        self._listen()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Break all connections, stop listening, and wait; harmless when it was done."""
        if self._is_open:
            self.call(lambda: setattr(self, "_is_open", False))
        self._thread.join(CALL_SECONDS)
        assert not self._thread.is_alive(), "the proxy's thread did not end"
        self._bell.close()

    def call(self, order: Callable):
        """Let the thread do something between two events, and return what it returned."""
        answers: queue.SimpleQueue = queue.SimpleQueue()

        def work() -> None:
            result = order()
            self._settle()
            answers.put(result)

        self._orders.put(work)
        self._bell.send(b"!")
        return answers.get(timeout=CALL_SECONDS)

    def switch(self, mode: Mode) -> None:
        self.mode = mode
        self._listen()

    def reset_all(self) -> None:
        for link in self.links:
            link.reset()
        self._busy |= self.links

    def _bound(self) -> socket.socket:
        """Take the port. Until it listens, connections are refused."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self._address)
        listener.setblocking(False)
        return listener

    def _listen(self) -> None:
        """Listen or not, as the mode says."""
        if self.mode.listens == self._is_listening:
            return
        self._is_listening = self.mode.listens
        if self._is_listening:
            self._listener.listen(128)
            self._selector.register(self._listener, READ)
        else:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = self._bound()

    def _run(self) -> None:
        try:
            while self._is_open:
                for key, events in self._selector.select(self._seconds_to_wait()):
                    if key.data is not None:
                        self._serve(key.data, events)
                    elif key.fileobj is self._ear:
                        self._obey()
                    else:
                        self._accept()
                self._settle()
        finally:
            self._close()

    def _close(self) -> None:
        for link in list(self.links):
            link.reset()
            self._forget(link)
        for each in (self._listener, self._ear, self._selector):
            each.close()

    def _obey(self) -> None:
        self._ear.recv(4096)
        while not self._orders.empty():
            self._orders.get()()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it left, or we listen no more
            return
        self.accepted += 1
        if self.mode.drops:
            client.close()
            return
        try:
            server = socket.create_connection((self._target.host, self._target.port), CALL_SECONDS)
        except OSError:
            client.close()
            return
        link = Link(client, server)
        self.links.add(link)
        self._busy.add(link)

    def _serve(self, end: End, events: int) -> None:
        """Take what an end sent. What it can be sent is sent afterwards."""
        link = end.link
        if link not in self.links:  # an order ended it, after the selector had seen this
            return
        self._busy.add(link)
        if link.is_closed or not events & READ:
            return
        data = end.receive()
        if data is None or link.is_cut or link.is_black:
            return
        to_server = end is link.client
        passed = self.mode.take(link, to_server, data)
        if link.is_closed or link.is_black:
            return
        if end.is_broken:
            link.reset()
            return
        self.bytes[to_server] += len(passed)
        due = time.monotonic() + self.mode.lag
        if passed or not data:
            end.peer.send(due, passed)
        if link.is_cut:
            link.client.send(due, b"")
            link.server.send(due, b"")

    def _settle(self) -> None:
        """Send what is due, forget what is over, and listen to what is left."""
        now = time.monotonic()
        for link in list(self._busy):
            for end in link.ends:
                end.flush(now)
            if link.is_closed or link.is_over():
                self._forget(link)
                continue
            for end in link.ends:
                self._watch(end, end.wants(now))
            if link.is_idle():
                self._busy.discard(link)

    def _watch(self, end: End, events: int) -> None:
        """Have the selector wait for these events, and for no others."""
        known = self._selector.get_map().get(end.sock)
        if known is None:
            if events:
                self._selector.register(end.sock, events, end)
        elif not events:
            self._selector.unregister(end.sock)
        elif known.events != events:
            self._selector.modify(end.sock, events, end)

    def _forget(self, link: Link) -> None:
        for end in link.ends:
            self._watch(end, 0)
            end.sock.close()
        self.links.discard(link)
        self._busy.discard(link)

    def _seconds_to_wait(self) -> float | None:
        """Return the seconds until something is due, None when nothing will be."""
        now = time.monotonic()
        later = [
            end.waiting[0].due - now
            for link in self._busy
            for end in link.ends
            if end.waiting and end.waiting[0].due > now
        ]
        return min(later, default=None)
