"""The tables of a SQLite store: which are there, of which format, and making what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._durations import shown
from ..errors import BackendError
from ._sqlite_rows import NAMES, NEEDED_TO_READ, TABLES
from .base import FORMAT_VERSION

if TYPE_CHECKING:
    import sqlite3


def can_be_read(connection: sqlite3.Connection, path: str) -> bool:
    """Whether there is history in the file; raises `BackendError` as `is_complete` does."""
    return _stored(connection, path) >= NEEDED_TO_READ


def is_complete(connection: sqlite3.Connection, path: str) -> bool:
    """Whether all tables and indexes are there.

    Raises:
        BackendError: What is stored has a newer format, or one that can't be read.
    """
    return _stored(connection, path) >= {*NAMES, FORMAT_VERSION}


def create(connection: sqlite3.Connection, path: str) -> None:
    """Create what is missing, all of it or what somebody dropped; ends the transaction."""
    try:
        if not is_complete(connection, path):
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO anarchon_format SELECT ? "
                "WHERE NOT EXISTS (SELECT 1 FROM anarchon_format)",
                (FORMAT_VERSION,),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _stored(connection: sqlite3.Connection, path: str) -> set[object]:
    """Return which tables and indexes there are, and the versions of their format."""
    execute = connection.execute
    found: set[object] = {name for (name,) in execute("SELECT name FROM sqlite_master")}
    if "anarchon_format" in found:
        versions = {version for (version,) in execute("SELECT version FROM anarchon_format")}
        _check_format(versions, path)
        found |= versions
    return found


def _check_format(versions: set[object], path: str) -> None:
    for version in versions:
        if type(version) is not int or version < 1:
            raise BackendError(
                f"What is stored in {path} can't be used: the version in its table "
                f"anarchon_format is {shown(version)}; delete that row, or use another file."
            )
        if version > FORMAT_VERSION:
            raise BackendError(
                f"The SQLite store {path} has format {version}, written by a newer anarchon; "
                f"this one knows format {FORMAT_VERSION}: upgrade it, or use another file."
            )
