"""What a store would refuse to a scheduler that starts on it, found out without making anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._aside import aside

if TYPE_CHECKING:
    from ._postgres_links import PostgresLink
    from .base import ClaimBackend
    from .postgres import PostgresBackend
    from .sqlite import SqliteBackend

Prepared: TypeAlias = Literal["prepared", "empty"]

_MAY_CREATE = b"""
    SELECT CASE WHEN to_regnamespace($1) IS NULL
        THEN has_database_privilege(current_database(), 'CREATE')
        ELSE has_schema_privilege(to_regnamespace($1), 'CREATE') END
"""


def is_missing_file(backend: ClaimBackend) -> bool:
    """Whether this is a store in a file that nobody has made yet, in a folder that is there."""
    if _kind(backend) != "sqlite":
        return False
    from ._sqlite_files import is_missing

    return is_missing(_sqlite(backend).database)


def file_problem(backend: ClaimBackend) -> str:
    """Return why a file that is missing can't be made; nothing if it can.

    The errors of a file that is there come from opening it.
    """
    import os

    from ._sqlite_files import is_network

    path = _sqlite(backend).database
    folder = os.path.dirname(path)  # noqa: PTH120 - as elsewhere for this store
    kind = _sqlite(backend)._file_system_of(path)  # noqa: SLF001 - of this package
    if is_network(kind):
        return (
            f"{path} would be on a network file system ({kind}), where its locks don't hold: use a"
            " file on a local disk, or a server as the store."
        )
    if os.access(folder, os.W_OK | os.X_OK):
        return ""
    return f"this user may create no file in {folder}: give write permission on it."


def prepared(backend: ClaimBackend, seconds: float) -> Prepared:
    """Return whether an open store has all that it needs, which then may be used.

    Raises:
        BackendError: A right is missing: on what is there, or for making it.
    """
    kind = _kind(backend)
    if kind == "postgres":
        return _on_postgres(backend, seconds)  # type: ignore[arg-type] # by its module
    if kind == "redis":
        backend.prepare(())  # it tries out commands, and leaves nothing that others would own
    return "prepared"


def _on_postgres(backend: PostgresBackend, seconds: float) -> Prepared:
    from ..errors import BackendUnavailable
    from . import _postgres_schema as schemas
    from ._postgres_wait import ask

    deadline = time.monotonic() + seconds

    def look(link: PostgresLink) -> Prepared:
        with link.session(deadline) as pgconn:
            schema = backend._schema_on(pgconn, deadline)  # noqa: SLF001 - of this package
            if schemas._is_complete(pgconn, schema, deadline):  # noqa: SLF001 - of this package
                return "prepared"
            name = schemas.quoted(schema)
            if ask(pgconn, _MAY_CREATE, (name.encode(),), deadline) == b"\x01":
                return "empty"
        raise BackendUnavailable(
            f"This role may not create what the store needs in the schema {name}: run `anarchon"
            " schema` and give its output to psql as a role that may."
        )

    return aside(lambda: backend._on(None, look, deadline, keep=False))  # noqa: SLF001 - of this package


def _sqlite(backend: Any) -> SqliteBackend:
    sqlite: SqliteBackend = backend
    return sqlite


def _kind(backend: ClaimBackend) -> str:
    """Return the module of a backend of ours, which is loaded where there is such an object."""
    names = [kind.__module__ for kind in type(backend).__mro__ if kind.__module__]
    ours = (name.rpartition(".")[2] for name in names if name.startswith("anarchon.backends."))
    return next(iter(ours), "")
