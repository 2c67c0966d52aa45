"""Stores by their addresses, as settings of a service name them. Nothing is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._durations import check_askable
from ._texts import type_name
from .backends.base import ClaimBackend
from .errors import ConfigurationError

if TYPE_CHECKING:
    from .backends.sqlite import SqliteBackend

_POSTGRES = ("postgres://", "postgresql://")
_REDIS = ("redis://", "rediss://", "unix://")
_SQLITE = "sqlite://"
_FORMS = (
    "give sqlite:///jobs.db (a relative path; sqlite:////var/jobs.db is absolute), redis://…,"
    " postgresql://…, or memory://"
)


def is_postgres(address: str) -> bool:
    """Return whether this is what libpq takes: a URL, or ``host=… dbname=…``."""
    return address.startswith(_POSTGRES) or ("=" in address and "://" not in address)


def backend_at(given: object, *, what: str, namespace: str | None = None) -> ClaimBackend:
    """Return the backend that a setting means.

    Args:
        given: A backend, which is returned as it is, or an address: ``sqlite:///path``,
            ``redis://``, ``rediss://``, ``unix://``, ``postgresql://`` or ``host=… dbname=…``,
            ``memory://``.
        what: The name of the setting, for messages.
        namespace: That of the service on its store; None for the backend's own default.

    Raises:
        ConfigurationError: It is neither, or the address can't be meant. Nothing of it is
            shown, since there may be a password in it.
        ImportError: The driver is missing; the message names the extra.
    """
    check_askable(given, what)
    if isinstance(given, ClaimBackend):
        if namespace not in (None, given.namespace):
            raise ConfigurationError(
                f"{what} is a backend, which has the namespace {given.namespace!r} already; give"
                f" {namespace!r} to the backend, and no namespace beside it"
            )
        return given
    if not isinstance(given, str):
        raise ConfigurationError(
            f"{what} is an object of the class {type_name(given)}; give a backend, or an"
            f" address: {_FORMS}"
        )
    try:
        return _made(given.strip(), "anarchon" if namespace is None else namespace)
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from error


def _made(address: str, namespace: str) -> ClaimBackend:
    if is_postgres(address):
        from .backends.postgres import PostgresBackend

        return PostgresBackend(address, namespace=namespace)
    if address.startswith(_REDIS):
        from .backends.redis import RedisBackend

        return RedisBackend(address, namespace=namespace)
    if address.startswith(_SQLITE):
        return _sqlite(address.removeprefix(_SQLITE), namespace)
    if address == "memory://":
        from .backends.memory import MemoryBackend

        return MemoryBackend(namespace=namespace)
    scheme = address.partition("://")[0] if "://" in address else ""
    if scheme.startswith(("postgresql+", "postgres+")) and scheme.isprintable():
        raise ConfigurationError(
            f"{scheme}:// is an address of SQLAlchemy; write postgresql://, without the driver"
        )
    raise ConfigurationError(f"it is the address of no store that is known here; {_FORMS}")


def _sqlite(rest: str, namespace: str) -> SqliteBackend:
    from .backends.sqlite import SqliteBackend

    if not rest.startswith("/") or not rest[1:] or "?" in rest:
        raise ConfigurationError(
            "it names no file as SQLite's addresses do; write sqlite:///jobs.db for a relative"
            " path, sqlite:////var/jobs.db for an absolute one, and nothing behind it"
        )
    return SqliteBackend(rest[1:], namespace=namespace)
