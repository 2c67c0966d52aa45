"""How a server is reached: redis-py's connection class makes the socket, and nothing else.

So TLS, Unix sockets and credentials are set as for any client of redis-py, and what is said
on the socket is ours: no handshake that costs round trips, no retries, no health checks, and
time limits that hold.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ._aside import within
from ._redis_talk import ReplyError, Talk, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from ._redis_talk import Address, Word

T = TypeVar("T")

# What redis-py is told about its own conversation and time limits is none of our business.
_NOT_OURS = (
    *("cache", "client_", "command_packer", "connection_pool", "decode_", "driver_", "encoding"),
    *("event_", "health_", "himport", "legacy_", "lib_", "maint", "max_connections", "orig_"),
    *("oss_", "parser_", "protocol", "redis_connect", "retry", "single_", "socket_connect_"),
    *("socket_read", "socket_timeout", "timeout"),
)


class Door(NamedTuple):
    """Where and how to connect: a connection class of redis-py, and its arguments."""

    connection_class: type[Any]
    arguments: Mapping[str, Any]

    @property
    def address(self) -> Address | None:
        """Return host and port, or None for a Unix socket."""
        if "path" in self.arguments:
            return None
        host, port = self.arguments.get("host"), self.arguments.get("port")
        return str(host or "localhost"), int(port or 6379)

    def at(self, address: Address) -> Door:
        """Return the same door on another server, which is never asked by a Unix socket."""
        there = {**self.arguments, "host": address[0], "port": address[1]}
        if there.pop("path", None) is None:
            return self._replace(arguments=there)
        return Door(driver().connection.Connection, there)

    def opened(self, deadline: float) -> Talk:
        """Connect, say who we are, and choose the database."""
        talk = Talk(self._socket(deadline), self.address)
        try:
            self._greet(talk, deadline)
        except BaseException:
            talk.close()
            raise
        return talk

    def _greet(self, talk: Talk, deadline: float) -> None:
        greetings = self._greetings(deadline)
        for words, reply in zip(greetings, talk.ask_all(deadline, greetings), strict=True):
            if isinstance(reply, ReplyError):
                raise _without(words[-1] if words[0] == "AUTH" else None, reply)

    def _socket(self, deadline: float) -> socket.socket:
        known = {
            name: value for name, value in self.arguments.items() if not name.startswith(_NOT_OURS)
        }
        left = seconds_left(deadline)
        bounded = _bounded(self.connection_class)
        connection = bounded(**known, socket_timeout=left, socket_connect_timeout=left)
        connection.anarchon_deadline = deadline
        made: socket.socket = connection._connect()  # noqa: SLF001 - all that is wanted of it
        return made

    def _greetings(self, deadline: float) -> list[tuple[Word, ...]]:
        found: list[tuple[Word, ...]] = []
        name, password = self.arguments.get("username"), self.arguments.get("password")
        provider = self.arguments.get("credential_provider")
        if provider is not None:
            given = _in_time("the credential provider", provider.get_credentials, deadline)
            found.append(("AUTH", *given))
        elif name:
            found.append(("AUTH", name, password or ""))
        elif password:
            found.append(("AUTH", password))
        if self.arguments.get("db"):
            found.append(("SELECT", int(self.arguments["db"])))
        return found


def _without(secret: Word | None, error: ReplyError) -> ReplyError:
    """Return the error without a password that it quotes; other words stay, whatever it is."""
    code, space, text = str(error).partition(", with args")[0].partition(" ")
    if secret:
        quoted = rf"(?<=['\"`]){re.escape(str(secret))}(?=['\"`])"
        text = re.sub(quoted, "…", text)
    return ReplyError(f"{code}{space}{text}")


def driver() -> ModuleType:
    """Import redis-py; the error names what to install."""
    try:
        import redis
    except ImportError as error:
        raise ImportError(
            "RedisBackend needs redis-py, which is not installed: pip install 'anarchon[redis]'"
        ) from error
    return redis


def _bounded(connection_class: type[Any]) -> type[Any]:
    """Return a class that connects by TCP as we do; what it does on top of that stays.

    A class of TLS calls the `_connect` that comes after its own, and finds ours there.
    """
    Connection = driver().connection.Connection  # noqa: N806 - a class
    if not issubclass(connection_class, Connection):
        return connection_class

    class Bounded(Connection):  # type: ignore[misc, valid-type]
        def _connect(self) -> socket.socket:
            return _connected(self.host, self.port, self.anarchon_deadline, self)

    if connection_class is Connection:
        return Bounded
    return type("Bounded", (connection_class, Bounded), {})


def _in_time(whose: str, call: Callable[[], T], deadline: float) -> T:
    """Make a call that knows no deadline, and wait for it no longer than that."""
    try:
        return within(call, seconds_left(deadline), late=lambda _: None)
    except TimeoutError as error:
        raise TimeoutError(f"{whose} did not answer in time") from error


def _connected(host: str, port: int, deadline: float, options: Any) -> socket.socket:
    """Connect to the first of a host's addresses that answers, all of them within the deadline."""
    places = _in_time(
        "the name server",
        lambda: socket.getaddrinfo(host, port, options.socket_type, socket.SOCK_STREAM),
        deadline,
    )
    failed: OSError = OSError("the host has no address")
    for number, (family, kind, protocol, _, place) in enumerate(places):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in {**_KEEPALIVE, **options.socket_keepalive_options}.items():
                sock.setsockopt(socket.IPPROTO_TCP, name, value)
            sock.settimeout(seconds_left(deadline) / (len(places) - number))
            sock.connect(place)
            sock.settimeout(seconds_left(deadline))
            return sock
        except OSError as error:
            failed = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failed


# A peer that is gone is noticed after a minute even while nothing is asked.
_KEEPALIVE = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}
