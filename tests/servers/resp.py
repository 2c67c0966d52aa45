"""A small client of the Redis protocol, so that the tests of servers need no driver."""

from __future__ import annotations

import socket


class ReplyError(Exception):
    """The server answered with an error."""


class Client:
    """One connection; a call sends a command and returns its reply as bytes, int, list or None.

    `address` is (host, port) or the path of a Unix socket; `timeout` is in seconds. Raises
    `ReplyError` for an error reply, OSError for a broken connection.
    """

    def __init__(self, address, *, timeout: float = 5.0, context=None) -> None:
        family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(address)
            if context is not None:
                self.socket = context.wrap_socket(self.socket, server_hostname=address[0])
        except BaseException:
            self.socket.close()
            raise
        self._file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __call__(self, *words: str | bytes | float):
        self.send(*words)
        return self.receive()

    def send(self, *words: str | bytes | float) -> None:
        """Send a command without waiting for its reply."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        body = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(b"*%d\r\n%b" % (len(parts), body))

    def receive(self):
        """Wait for one reply."""
        reply = self._receive()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def _receive(self):
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ReplyError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._exactly(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._receive() for _ in range(int(rest))]
        raise ValueError(f"not a reply: {line!r}")

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise ConnectionResetError("the server closed the connection")
        return data
