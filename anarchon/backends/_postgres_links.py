"""Connections to PostgreSQL, wherever they come from: an address, a pool, or a function.

One of an address or of a user's function is kept for the next call. Of a user's pool one is
borrowed for each call, so that a pool of one serves its application as well.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import BackendError, BackendUnavailable
from . import _postgres_places as places
from ._aside import within
from ._postgres_wait import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from psycopg.pq.abc import PGconn

Params: TypeAlias = dict[str, Any]

# What makes the kernel notice a dead connection, where the address doesn't say otherwise.
# Our own deadlines don't need it; the server, and whatever is in between, do.
DEFAULTS = {
    "fallback_application_name": "anarchon",
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
# What an address may not choose. Names go through the client encoding, so with another one the
# same name would be another store, and each store would have its winner.
FIXED = {"target_session_attrs": "read-write", "client_encoding": "UTF8"}


class Source(Protocol):
    """Where connections come from."""

    def link(self, deadline: float) -> PostgresLink:
        """Return a new connection; raises whatever went wrong, `TimeoutError` for late."""
        ...


class PostgresLink(ABC):
    """A connection, as the calls of a store need it."""

    @abstractmethod
    @contextmanager
    def session(self, deadline: float) -> Iterator[PGconn]:
        """Lend libpq's connection for one call; after an error it isn't used again."""

    @abstractmethod
    def close(self) -> None:
        """Close it, without waiting for the server; never raises."""


class Own(PostgresLink):
    """A connection that anarchon opened."""

    def __init__(self, pgconn: PGconn) -> None:
        self._pgconn = pgconn

    @contextmanager
    def session(self, deadline: float) -> Iterator[PGconn]:
        """Lend the connection."""
        del deadline
        yield self._pgconn

    def close(self) -> None:
        """Close the connection."""
        self._pgconn.finish()


class Made(PostgresLink):
    """A connection that a user's function made."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextmanager
    def session(self, deadline: float) -> Iterator[PGconn]:
        """Lend the connection."""
        del deadline
        yield usable(self._connection)

    def close(self) -> None:
        """Close the connection."""
        closed(self._connection)


class Borrowed(PostgresLink):
    """A user's pool, which lends a connection for each call."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @contextmanager
    def session(self, deadline: float) -> Iterator[PGconn]:
        """Borrow a connection; one on which anything went wrong goes back closed."""
        left = deadline - time.monotonic()
        # A pool may try its connections out, and that has no time limit.
        connection = within(lambda: self._pool.getconn(left), left, late=self._pool.putconn)
        try:
            yield usable(connection)
        except BaseException:
            closed(connection)
            raise
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        """Leave the pool as it is."""


def closed(connection: Any) -> None:
    """Close a user's connection; never raises, and leaves one of another process alone."""
    if not INHERITED.has(connection):
        with suppress(Exception):  # whatever a driver says of a connection that is given up
            connection.close()


def usable(connection: Any) -> PGconn:
    """Return libpq's connection inside a user's; refuse one that can't be used."""
    import psycopg

    if not isinstance(connection, psycopg.Connection):
        raise BackendError(
            "PostgresBackend needs connections of psycopg 3, as `psycopg.connect` and "
            f"`psycopg_pool.ConnectionPool` make them, not {type(connection).__name__}."
        )
    if INHERITED.has(connection):
        raise BackendUnavailable(
            "The connection was made in another process, which uses it too: make the pool (or "
            "the connection) after the fork, or give PostgresBackend an address instead."
        )
    pgconn: PGconn = connection.pgconn
    if pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return speaking_utf8(pgconn)
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    raise BackendUnavailable(
        "The connection is in use, or in a transaction: give PostgresBackend connections that "
        "nobody else uses, a new one at each call."
    )


def speaking_utf8(pgconn: PGconn) -> PGconn:
    """Return a connection whose client encoding is UTF8, which it knows without asking."""
    encoding = pgconn.parameter_status(b"client_encoding") or b"unknown"
    if encoding in (b"UTF8", b"UNICODE"):  # the old name of the same
        return pgconn
    raise BackendError(
        f"The connection's client_encoding is {encoding.decode(errors='replace')}, with which "
        "names could become others and two instances could run the same slot: connect with "
        'client_encoding=UTF8, as in psycopg.connect(..., client_encoding="UTF8") or '
        'ConnectionPool(..., kwargs={"client_encoding": "UTF8"}).'
    )


class Inherited:
    """The sockets that were open when this process was forked."""

    def __init__(self) -> None:
        self._sockets: frozenset[tuple[int, int]] = frozenset()
        self._watches = False

    def watch(self) -> None:
        """Begin to notice forks, once."""
        if not self._watches:
            self._watches = True
            os.register_at_fork(after_in_child=self._note)

    def has(self, connection: Any) -> bool:
        """Whether the socket of a connection came through a fork."""
        if not self._sockets:
            return False
        try:
            return _identity(connection.pgconn.socket) in self._sockets
        except Exception:  # it has no socket any more
            return False

    def _note(self) -> None:
        found = set(self._sockets)
        with suppress(OSError):  # a system that has no such list
            for name in os.listdir("/dev/fd"):  # noqa: PTH208 - `pathlib` may not be loaded
                with suppress(OSError):  # the one that listed them
                    found.add(_identity(int(name)))
        self._sockets = frozenset(found)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


INHERITED = Inherited()


class Address:
    """An address: a URL or what libpq calls a conninfo, in its parts."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params: Params = {**DEFAULTS, **params, **FIXED}

    def link(self, deadline: float) -> PostgresLink:
        """Connect, to the first host that may be written to."""
        from psycopg.conninfo import make_conninfo

        given = places.Given(self._params)
        seconds = float(given("connect_timeout") or 0)
        if seconds > 0:
            deadline = min(deadline, time.monotonic() + seconds)
        found, failed = places.attempts(given, deadline)
        pgconn = connect([make_conninfo("", **one) for one in found], failed, deadline)
        try:
            return Own(speaking_utf8(pgconn))
        except BaseException:
            pgconn.finish()
            raise


class Pool:
    """A user's pool."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        INHERITED.watch()

    def link(self, deadline: float) -> PostgresLink:
        """Return the pool as a connection."""
        del deadline
        return Borrowed(self._pool)


class Function:
    """A user's function that connects."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        INHERITED.watch()

    def link(self, deadline: float) -> PostgresLink:
        """Call the function, which may take as long as it likes, and nobody waits for that."""
        made = within(self._function, deadline - time.monotonic(), late=closed)
        try:
            usable(made)
        except BaseException:
            closed(made)
            raise
        return Made(made)
