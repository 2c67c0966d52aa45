"""A conversation with a server of the Redis protocol (its second version) on one socket.

Before each send and each receive the socket's time limit is set to what is left until the
deadline, so that a call ends in time also when a reply comes in drops. Whoever gets an
exception from here closes the conversation; nothing can be read after a part of a reply.
"""

from __future__ import annotations

import io
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

Word: TypeAlias = str | bytes | int
Address: TypeAlias = tuple[str, int]


# How Redis 6.2 begins what a script was refused: "… @user_script: 332: -READONLY You can't …".
_IN_SCRIPT = re.compile(r".*@user_script: ?\d+: -?", re.DOTALL)
_FORBIDDEN = ("ACL failure in script", "can't run this command", "has no permissions")


class ReplyError(Exception):
    """The server answered with an error; `code` is the word that names it."""

    def __init__(self, text: str) -> None:
        super().__init__(_IN_SCRIPT.sub("", text).strip())

    @property
    def code(self) -> str:
        """Return the word that names the error, such as ``READONLY``."""
        text = str(self)
        if any(words in text for words in _FORBIDDEN):
            return "NOPERM"  # what a script may not do has no code of its own
        if "unauthenticated" in text:
            return "NOAUTH"  # long commands are refused before anybody looks at them
        code = text.partition(" ")[0]
        return code if code.isupper() else "ERR"


def seconds_left(deadline: float) -> float:
    """Return the time until a deadline of `time.monotonic`; raises TimeoutError after it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


class Talk:
    """One conversation. `address` is whom it is with, None for a Unix socket."""

    def __init__(self, sock: socket.socket, address: Address | None) -> None:
        self.address = address
        self._socket = sock
        self._incoming = _Incoming(sock)
        self._file = io.BufferedReader(self._incoming, 65_536)

    def close(self) -> None:
        """Close the socket; nothing is said to the server. Never raises."""
        with suppress(OSError):
            self._socket.close()

    def ask(self, deadline: float, *words: Word) -> Any:
        """Send one command and return its reply; raises `ReplyError` for an error reply."""
        (reply,) = self.ask_all(deadline, [words])
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def ask_all(self, deadline: float, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Send commands together and return their replies, errors among them.

        A reply is text, a whole number, None, or a list of such.
        """
        self._send(b"".join(map(_packed, commands)), deadline)
        self._incoming.deadline = deadline
        return [self._reply() for _ in commands]

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(seconds_left(deadline))
            rest = rest[self._socket.send(rest) :]

    def _reply(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._text(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        if kind == b"+":
            return rest.decode(errors="replace")
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        raise ConnectionResetError("what answers doesn't speak the Redis protocol")

    def _text(self, size: int) -> str:
        data = self._file.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionResetError("the server closed the connection")
        return data[:-2].decode(errors="replace")


class _Incoming(io.RawIOBase):
    """What comes in at a socket, until a deadline."""

    def __init__(self, sock: socket.socket) -> None:
        self.deadline = 0.0
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(seconds_left(self.deadline))
        return self._socket.recv_into(buffer)


def _packed(words: Sequence[Word]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    sized = [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
    return b"*%d\r\n%b" % (len(parts), b"".join(sized))
