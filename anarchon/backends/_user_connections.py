"""Connections of users, with a transaction of theirs: what they are, and a statement on them.

They may come straight from a driver, from Django or from SQLAlchemy. None of these is
imported: an object that is given brought its library along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._texts import type_name
from ..errors import ConfigurationError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_IDLE = 0  # libpq's word for a connection without a transaction
_BEGIN = {
    "django": "enter `with transaction.atomic():` first",
    "driver": "begin one first, or give a connection that isn't in autocommit mode",
}
# No such function, schema or table; none of them is there where no store is.
_NO_STORE = ("42883", "3F000", "42P01")


class NoStore(Exception):
    """The database of a connection has no store."""


def postgres_value(connection: object, statement: str, values: tuple[object, ...]) -> object:
    """Return the one value of a statement, executed in the transaction of a connection.

    Raises:
        ConfigurationError: It is no connection to PostgreSQL, or has no transaction.
        NoStore: What the statement names isn't there.
        Exception: What else the driver raises.
    """
    given = connection
    raw: Any = _of_session(connection)
    try:
        if _is_sqlalchemy(raw):
            _check_postgres(_raw_of_sqlalchemy(raw), given)
            # By SQLAlchemy itself, which begins its own transaction with its first statement.
            value: object = raw.exec_driver_sql(statement, values).scalar()
            return value
        if _is_django(raw):
            raw = _raw_of_django(raw)
        _check_postgres(raw, given)
        with _cursor(raw) as cursor:
            cursor.execute(statement, values)
            (value,) = cursor.fetchone()
        # Where the encoding of the client is SQL_ASCII, nothing is known about texts.
        return value.decode() if isinstance(value, bytes) else value
    except Exception as error:
        if _state_of(error) in _NO_STORE:
            raise NoStore from error
        raise


def _state_of(error: Any) -> object:
    """Return the SQLSTATE of what a driver raised, also through SQLAlchemy."""
    error = getattr(error, "orig", None) or error
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def sqlite_connection(connection: object) -> sqlite3.Connection:
    """Return the driver's connection, on which a transaction may be going on.

    Raises:
        ConfigurationError: It is no connection to SQLite.
    """
    import sqlite3

    given = connection
    raw: Any = _of_session(connection)
    if _is_sqlalchemy(raw):
        mine, raw = raw, _raw_of_sqlalchemy(raw)
        if isinstance(raw, sqlite3.Connection):
            mine.exec_driver_sql("SELECT 1")  # its own transaction begins with that
    elif _is_django(raw):
        raw = _raw_of_django(raw)
    if not isinstance(raw, sqlite3.Connection):
        raise _wrong(given, "sqlite3, or Django's or SQLAlchemy's to SQLite")
    if not raw.in_transaction and _is_autocommit(raw):
        raise _no_transaction(raw)
    return raw


# --- whose connection it is ---------------------------------------------------------


def _comes_from(connection: object, library: str) -> bool:
    """Whether its class, or one that it derives from, is of this library."""
    return any(base.__module__.split(".")[0] == library for base in type(connection).__mro__)


def _of_session(connection: Any) -> Any:
    """Return the connection of a session of SQLAlchemy's; anything else as it is."""
    _refuse_async(connection)
    if _comes_from(connection, "sqlalchemy") and hasattr(connection, "get_bind"):
        return connection.connection()
    return connection


def _is_sqlalchemy(connection: object) -> bool:
    return _comes_from(connection, "sqlalchemy") and hasattr(connection, "exec_driver_sql")


def _raw_of_sqlalchemy(connection: Any) -> Any:
    return connection.connection.driver_connection


def _is_django(connection: object) -> bool:
    return hasattr(connection, "ensure_connection") and hasattr(connection, "in_atomic_block")


def _raw_of_django(connection: Any) -> Any:
    if not connection.in_atomic_block and connection.get_autocommit():
        raise _no_transaction(connection)
    if connection.needs_rollback:
        raise ConfigurationError(
            "The connection's transaction can only be rolled back, since an error passed through "
            "an inner `atomic` block: let it go on to the outermost one."
        )
    connection.ensure_connection()
    return connection.connection


def _check_postgres(raw: Any, given: object) -> None:
    _refuse_async(raw)
    if not hasattr(getattr(raw, "info", None), "transaction_status"):
        raise _wrong(given, "psycopg (or psycopg2), or Django's or SQLAlchemy's through it")
    if raw.info.transaction_status == _IDLE and raw.autocommit:
        raise _no_transaction(raw)


def _refuse_async(connection: object) -> None:
    for base in type(connection).__mro__:
        if "asyncio" in base.__module__ or base.__name__.startswith("Async"):
            raise ConfigurationError(
                f"The connection is {type_name(connection)}, which has to be awaited: give a "
                "blocking one; in an async handler, on a thread (asyncio.to_thread)."
            )


def _cursor(raw: Any) -> Any:
    """Return a cursor of tuples, whatever cursors and rows the connection makes for its owner."""
    if _comes_from(raw, "psycopg2"):
        extensions: Any = import_module("psycopg2.extensions")  # untyped, and not ours to require
        return raw.cursor(cursor_factory=extensions.cursor)
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    return Cursor(raw, row_factory=tuple_row)


def _is_autocommit(raw: sqlite3.Connection) -> bool:
    """Whether nothing that is executed begins a transaction by itself."""
    mode: object = getattr(raw, "autocommit", -1)  # since Python 3.12
    if mode == -1:
        return raw.isolation_level is None
    return mode is True


def _no_transaction(connection: object) -> ConfigurationError:
    how = _BEGIN["django" if _is_django(connection) else "driver"]
    return ConfigurationError(f"The connection has no transaction to share: {how}.")


def _wrong(given: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(
        f"The connection is {type_name(given)}: give one to the scheduler's own database, "
        f"of {wanted}."
    )


def with_plain_rows(raw: sqlite3.Connection, work: Callable[[], Any], text: Any) -> Any:
    """Call `work` while the connection makes tuples of texts, and put its own ways back."""
    before = raw.row_factory, raw.text_factory
    raw.row_factory, raw.text_factory = None, text
    try:
        return work()
    finally:
        raw.row_factory, raw.text_factory = before
