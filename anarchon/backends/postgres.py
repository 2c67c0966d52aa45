"""The store in a PostgreSQL database: for instances on many machines.

Every operation is one statement, which calls one function of the schema (see `sql/`), so it
is atomic by itself. No session state is used: no transaction over several statements, nothing
prepared, no LISTEN, no advisory lock of a session, no SET, no option of the start-up packet.
So a pooler in transaction mode, or in statement mode, may stand in between.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from .._durations import shown
from .._values import Lease, ServerInfo
from ..errors import BackendError, BackendUnavailable, ConfigurationError, ServerTooOld
from . import _postgres_advice as advice
from . import _postgres_schema as schemas
from . import _postgres_words as words
from ._postgres_links import Address, Function, Pool, PostgresLink
from ._postgres_wait import ask, ask_function
from ._remote import RemoteBackend
from ._storable import checked_silence, is_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import psycopg
    import psycopg_pool
    from psycopg.pq.abc import PGconn

    from .._values import Limits, Owner, Result
    from . import _wire as wire
    from ._postgres_links import Source
    from .base import Holding

MINIMUM = 13
_SHOWN = ("service", "host", "hostaddr", "port", "dbname")  # of an address, in messages
_MANUAL_LEASE_MS = 60_000  # until its first renewal: a manual run is never taken over
_INSTALL = "python -m pip install 'anarchon[postgres]'"


class PostgresBackend(RemoteBackend[PostgresLink]):
    """A store in a PostgreSQL database, 13 or newer.

    Nothing is connected before `start`. Every method may be called from any thread.

    Args:
        connection: A URL or any other text that libpq takes; a `psycopg_pool.ConnectionPool`,
            of which one connection is borrowed for each call, and which stays open; or a
            function without arguments that returns a new connection of psycopg.
        namespace: Two services in one schema use two namespaces and never see each other.
        schema: Where the tables and functions are. By default the current schema of the
            connection, the first of its search_path that exists, as it is when the store is
            opened; it is asked for then and never set.
        silence: Names of findings about the server that are not to be warned about.

    Raises:
        ConfigurationError: An argument can't be meant.
        ImportError: psycopg is missing; the extra ``anarchon[postgres]`` brings it.
    """

    def __init__(
        self,
        connection: str | psycopg_pool.ConnectionPool[Any] | Callable[[], psycopg.Connection[Any]],
        *,
        namespace: str = "anarchon",
        schema: str | None = None,
        silence: Iterable[str] = (),
    ) -> None:
        super().__init__(namespace)
        schemas.check_schema(schema)
        self._silence = checked_silence(silence, advice.FINDINGS)
        self._schema = schema
        self._current: str | None = None
        self._secrets: tuple[str, ...] = ()
        self._source = self._source_of(connection)

    def _source_of(self, connection: object) -> Source:
        if isinstance(connection, str):
            params = _parsed(connection)
            self._secrets = tuple(
                str(params[name]) for name in ("password", "sslpassword") if params.get(name)
            )
            self._where = " ".join(f"{name}={params[name]}" for name in _SHOWN if params.get(name))
            return Address(params)
        _psycopg()
        self._where = f"{type(connection).__name__}"
        if hasattr(connection, "getconn") and hasattr(connection, "putconn"):
            return Pool(connection)
        if callable(connection) and not isinstance(connection, type):
            return Function(connection)
        raise ConfigurationError(
            f"The connection is {type(connection).__name__}: give a URL, a "
            "psycopg_pool.ConnectionPool, or a function that returns a new connection."
        )

    def __repr__(self) -> str:
        where = f"{self._where} " if self._where else ""
        return f"<PostgresBackend {where}namespace={self.namespace!r}>"

    # --- what the base asks for -------------------------------------------------

    def open(self, limits: Limits) -> ServerInfo:
        """Connect and check the server; see `ClaimBackend.open`."""
        self._current = None
        return super().open(limits)

    def _connected(self, deadline: float) -> PostgresLink:
        return self._source.link(deadline)

    def _inspected(self, link: PostgresLink, deadline: float) -> ServerInfo:
        with link.session(deadline) as pgconn:
            sent, wall = time.monotonic(), time.time()
            answer = ask(pgconn, advice.INSPECT, (_bytes(self._schema),), deadline)
            received = time.monotonic()
            trip = received - sent
            found = advice.Found(*json.loads(answer or b"[]"))
            self._check(found)
            schemas.check_format(pgconn, self._named(found.schema), deadline)
        offset_ms = found.store_ms - (wall + trip / 2) * 1000
        # What the round trip may explain is no offset.
        sure_ms = max(0.0, abs(offset_ms) - trip * 500)
        told = advice.findings(found, sure_ms, self._silence)
        age = time.monotonic() - received
        return ServerInfo("postgres", found.version, found.store_ms, False, told, trip, age)

    def _check(self, found: advice.Found) -> None:
        if found.number < MINIMUM * 10_000:
            raise ServerTooOld(
                f"{self!r} is PostgreSQL {found.version}: anarchon needs {MINIMUM} or newer."
            )
        if found.is_standby:
            raise BackendUnavailable(f"{self!r} is a standby: give the address of the primary.")
        if found.is_read_only:
            raise BackendUnavailable(f"{self!r} can't be used: {advice.READ_ONLY}.")
        if found.encoding != "UTF8":
            raise BackendError(
                f"The database of {self!r} has the encoding {found.encoding}, which can't hold "
                "every name and text: use a database with the encoding UTF8."
            )

    def _prepared(self, link: PostgresLink, deadline: float) -> None:
        with link.session(deadline) as pgconn:
            schema = self._schema_on(pgconn, deadline)
            schemas.prepare(pgconn, schema, deadline)

    def _asked(self, link: PostgresLink, call: wire.Call, deadline: float) -> wire.Reply:
        with link.session(deadline) as pgconn:
            schema = schemas.quoted(self._schema_on(pgconn, deadline))
            function = f"{schema}.anarchon_{call.operation}_v1"
            values = (words.text_of(self.namespace), words.head_of(call), words.items_of(call))
            said = words.present_of(call)
            along = None if said is None else (f"{schema}.anarchon_keep_v1", said)
            return words.reply_of(ask_function(pgconn, function, values, deadline, along))

    def _explained(self, error: Exception) -> BackendError:
        return advice.explained(error, repr(self), self._secrets)

    # --- a transaction of the user's ----------------------------------------------

    def fence(self, connection: object, lease: Lease, *, owner: Owner) -> Holding:
        """Make a takeover wait for a transaction; see `LeaseBackend.fence`."""
        return self._hold(connection, lease, owner, completes=False)

    def complete(self, connection: object, result: Result, *, owner: Owner) -> Holding:
        """Record a success in a transaction; see `LeaseBackend.complete`."""
        if result.key.manual:  # the scheduler may not have come to it yet
            running = result._replace(status="running", duration_ms=0)
            self.record_manual([running], owner=owner, lease_ms=_MANUAL_LEASE_MS)
        lease = Lease(result.key, result.attempt)
        return self._hold(connection, lease, owner, completes=True)

    def refuse(self, connection: object) -> None:
        """Have a transaction fail; see `LeaseBackend.refuse`."""
        with suppress(Exception):  # the one that fails it, or what else has ended it
            self._shared(connection, "anarchon_refuse_v1(%s::text)", ("its run is not held",))

    def _hold(self, connection: object, lease: Lease, owner: Owner, *, completes: bool) -> Holding:
        self._check_open()
        key = lease.key
        if not is_storable(key):
            return "lost"
        texts = [words.text_of(text).decode() for text in (self.namespace, owner.token, key.job)]
        word = self._shared(
            connection,
            # Typed, since a driver may send the numbers as anything.
            "anarchon_hold_v1("
            "%s::text, %s::text, %s::text, %s::bigint, %s::text, %s::bigint, %s::boolean)",
            (*texts, key.slot_ms, key.manual, lease.attempt, completes),
        )
        if word == "elsewhere":
            raise self._elsewhere(f"knows no job {shown(key.job)}")
        return cast("Holding", word)

    def _shared(self, connection: object, call: str, values: tuple[object, ...]) -> object:
        from ._user_connections import NoStore, postgres_value

        schema = schemas.quoted(self._named(self._current)).replace("%", "%%")
        try:
            return postgres_value(connection, f"SELECT {schema}.{call}", values)
        except NoStore as error:
            raise self._elsewhere("has no store") from error.__cause__

    def _elsewhere(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"The connection's database {what} of {self!r}: give a connection to the scheduler's "
            "own database."
        )

    # --- the schema -------------------------------------------------------------

    def _schema_on(self, pgconn: PGconn, deadline: float) -> str:
        """Return the schema of the store, asking for the current one where none is named."""
        if self._schema is None and self._current is None:
            answer = ask(pgconn, b"SELECT convert_to(current_schema(), 'UTF8')", (), deadline)
            return self._named(None if answer is None else answer.decode())
        return self._named(self._current)

    def _named(self, current: str | None) -> str:
        if self._schema is not None:
            return self._schema
        if current is None:
            raise BackendUnavailable(
                f"{self!r} has no current schema, because none of its search_path exists or may "
                'be used: give one, as in PostgresBackend(..., schema="anarchon").'
            )
        schemas.check_schema(current)
        self._current = current
        return current


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ImportError(
            f"PostgresBackend needs psycopg: install anarchon[postgres]: {_INSTALL}"
        ) from error
    return psycopg


def _parsed(text: str) -> dict[str, Any]:
    """Return the parts of an address; what libpq says of a wrong one may quote a password."""
    _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        params = conninfo_to_dict(text)
    except Exception:
        params = None
    if params is None:
        raise ConfigurationError(
            "The connection is no address that libpq can read (it isn't shown here, since a "
            "password may be in it): give postgresql://user:password@host:port/database, with "
            "special characters of the password written as %40 and so on."
        )
    if not _can_be_shown(params, is_url=text.lstrip().startswith(("postgres://", "postgresql://"))):
        raise ConfigurationError(
            "The connection's host, port or database can't be meant (they aren't shown, since a "
            "part of a password may be in them): write special characters of the password as "
            "%40 for @, %2F for / and so on."
        )
    return dict(params)


def _can_be_shown(params: Mapping[str, Any], *, is_url: bool) -> bool:
    """Whether no place of an address has what belongs to another part, a password perhaps."""
    shown = {name: str(params.get(name) or "") for name in _SHOWN}
    return (
        all(port == "" or port.isdigit() for port in shown.pop("port").split(","))
        and not any("://" in place or "=" in place for place in shown.values())
        and (shown["host"].startswith("@") or "@" not in shown["host"])
        and not (is_url and "@" in shown["dbname"])
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def ddl(schema: str) -> str:
    """Return the statements that create a schema and all that a store needs in it.

    Args:
        schema: The name of the schema, unquoted.

    Raises:
        ConfigurationError: There can be no schema of that name.
    """
    return schemas.ddl(schema)


__all__ = ["PostgresBackend", "ddl"]
