"""Stores in the databases of a project, over connections of our own.

Django's own connections belong to requests and handlers: a claim in the middle of somebody's
transaction would be undone with it. So only what Django would connect with is taken, and it is
asked for at the time: while tests run, a database has another name.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ...backends._postgres_links import Address
from ...backends.postgres import PostgresBackend
from ...backends.sqlite import SqliteBackend
from ...errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.backends.base.base import BaseDatabaseWrapper

    from ..._values import Limits, ServerInfo
    from ...backends._local import Operation
    from ...backends._postgres_links import PostgresLink
    from ...backends.base import LeaseBackend
    from ...errors import BackendError

T = TypeVar("T")

# What an older driver takes beside what libpq knows.
_OF_PSYCOPG2 = ("connection_factory", "cursor_factory", "async", "async_")
# By these codes a server says that there are no tables or functions of ours.
_MISSING = ("42883", "42P01", "3F000")


def database_backend(alias: str, namespace: str) -> LeaseBackend:
    """Return a store in a database of the project.

    Args:
        alias: The key of the database in ``DATABASES``.
        namespace: That of the project on its store.

    Raises:
        ConfigurationError: No store can be in such a database, or its entry can't be meant.
        ImportError: The driver is missing.
    """
    vendor = _wrapper(alias).vendor
    makers: dict[str, Callable[[str, str], LeaseBackend]] = {
        "postgresql": PostgresOfDjango,
        "sqlite": SqliteOfDjango,
    }
    if vendor not in makers:
        raise ConfigurationError(
            f"DATABASES[{alias!r}] is a database of {vendor}, in which no store can be; give"
            ' ANARCHON["BACKEND"] the alias of one of PostgreSQL or SQLite, or a URL such as'
            " redis://host:6379/0"
        )
    made = makers[vendor](alias, namespace)
    # Each is asked for its name again when it is opened.
    (libpq_params if vendor == "postgresql" else _params)(alias)
    return made


def _wrapper(alias: str) -> BaseDatabaseWrapper:
    """Return a connection of Django's that isn't connected, and that nobody else has."""
    try:
        return connections.create_connection(alias)
    except ImproperlyConfigured as error:
        raise ConfigurationError(f"DATABASES[{alias!r}] can't be used: {error}") from error


def _params(alias: str) -> dict[str, Any]:
    try:
        return dict(_wrapper(alias).get_connection_params())
    except ImproperlyConfigured as error:
        raise ConfigurationError(f"DATABASES[{alias!r}] can't be used: {error}") from error


def libpq_params(alias: str) -> dict[str, Any]:
    """Return what Django has libpq connect with.

    Its options go through psycopg, which keeps some for itself.

    Raises:
        ConfigurationError: The entry of the database can't be meant.
        ImportError: psycopg is missing.
    """
    from psycopg import Connection, ProgrammingError, pq
    from psycopg.conninfo import conninfo_to_dict

    given = _params(alias)
    address = given.pop("conninfo", "")
    theirs = {*signature(Connection.connect).parameters, *_OF_PSYCOPG2}
    try:
        params = conninfo_to_dict(
            address, **{name: value for name, value in given.items() if name not in theirs}
        )
    except ProgrammingError:
        # Nothing of it is shown, since there may be a password in it.
        raise ConfigurationError(
            f'DATABASES[{alias!r}]["OPTIONS"]["conninfo"] is no address that libpq can read'
        ) from None
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    if unknown := sorted(map(repr, params.keys() - known)):
        raise ConfigurationError(
            f'DATABASES[{alias!r}]["OPTIONS"] has what no connection to PostgreSQL takes:'
            f" {', '.join(unknown)}"
        )
    return dict(params)


class PostgresOfDjango(PostgresBackend):
    """A store in a PostgreSQL database of the project."""

    def __init__(self, alias: str, namespace: str) -> None:
        self._alias = alias
        super().__init__("", namespace=namespace)
        self._where = f"DATABASES[{alias!r}]"

    def _source_of(self, connection: object) -> PostgresOfDjango:
        super()._source_of(connection)  # needs psycopg
        return self

    def link(self, deadline: float) -> PostgresLink:
        """Connect to the database that Django would connect to now."""
        params = libpq_params(self._alias)
        role = _wrapper(self._alias).settings_dict["OPTIONS"].get("assume_role")
        if role:
            # Django sets it after it has connected; the tables are to be the same owner's.
            escaped = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
            params["options"] = f"{params.get('options') or ''} -c role={escaped}".strip()
        self._secrets = tuple(
            str(params[name]) for name in ("password", "sslpassword") if params.get(name)
        )
        return Address(params).link(deadline)

    def _on(
        self,
        link: PostgresLink | None,
        work: Callable[[PostgresLink], T],
        deadline: float,
        *,
        keep: bool = True,
    ) -> T:
        """Make a call; where somebody asks before any scheduler has started, make the store first.

        A project's database is made by `migrate`, and people look before anything runs.
        """
        try:
            return super()._on(link, work, deadline, keep=keep)
        except BackendUnavailable as error:
            if keep or getattr(error.__cause__, "sqlstate", None) not in _MISSING:
                raise
        super()._on(None, lambda new: self._prepared(new, deadline), deadline, keep=False)
        return super()._on(None, work, deadline, keep=keep)

    def _explained(self, error: Exception) -> BackendError:
        if isinstance(error, ConfigurationError):
            raise error  # it won't be another one later, so that nobody should try again
        return super()._explained(error)


class SqliteOfDjango(SqliteBackend):
    """A store in a SQLite file of the project."""

    def __init__(self, alias: str, namespace: str) -> None:
        self._alias = alias
        # Which file it is, is asked when it is opened: in memory, as tests like it, it can't be.
        super().__init__("unknown yet", namespace=namespace)

    def __repr__(self) -> str:
        return f"<SqliteBackend DATABASES[{self._alias!r}] namespace={self.namespace!r}>"

    def open(self, limits: Limits) -> ServerInfo:
        """Open the file that Django would open now; see `ClaimBackend.open`."""
        self._follow()
        return super().open(limits)

    def _read_once(self, operation: Operation[T], seconds: float) -> T:
        self._follow()
        return super()._read_once(operation, seconds)

    def _write_once(self, operation: Operation[T], seconds: float) -> T:
        self._follow()
        return super()._write_once(operation, seconds)

    def _follow(self) -> None:
        """Take the name that is in the settings, unless the store is open."""
        if not self._users:
            self.database = file_of(self._alias)


def file_of(alias: str) -> str:
    """Return the path of a SQLite file of the project, absolute.

    Raises:
        ConfigurationError: It is in memory.
    """
    name = _params(alias)["database"]
    try:
        return SqliteBackend(name).database
    except ConfigurationError as error:
        raise ConfigurationError(
            f"DATABASES[{alias!r}] is in memory, or its NAME is no path: the scheduler has"
            " connections of its own, which need a file. In tests, give"
            f' DATABASES[{alias!r}]["TEST"]["NAME"] the path of one, or ANARCHON["BACKEND"]'
            ' "memory://"'
        ) from error
