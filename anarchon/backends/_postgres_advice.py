"""What is said of errors and settings of PostgreSQL: what happened, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._texts import message_of
from .._values import Finding
from ..errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREPARE = "run `anarchon schema` and give its output to psql as a role that may create it"
READ_ONLY = (
    "it is read-only: give the address of the primary if it is a standby, else run ALTER ROLE … "
    "RESET default_transaction_read_only, and the same for the database"
)
_ADVICE = {
    "25006": READ_ONLY,
    "57P01": "it is being shut down: it is tried again",
    "57P02": "it has crashed and recovers: it is tried again",
    "57P03": "it is starting up, or is a standby that can't be asked yet: it is tried again",
    "53300": "it has too many connections: raise max_connections, put a pooler in between, or "
    "start fewer instances (each needs two connections at most)",
    "42501": "a right is missing: grant it, or " + _PREPARE,
    "42P01": "a table is missing: " + _PREPARE,
    "42883": "a function is missing: " + _PREPARE,
    "3F000": "the schema is missing: " + _PREPARE,
    "40001": "it was undone because of another transaction: it is tried again",
    "40P01": "it was ended because of a deadlock with another transaction: it is tried again",
    "55P03": "another transaction locks what is needed: look in pg_stat_activity for one that "
    "has been open for long",
    "57014": "it was ended by statement_timeout, or by somebody: raise it for this role",
    "3D000": "there is no such database: create it, or correct the address",
    "28P01": "it doesn't take this password: correct it",
    "28000": "it doesn't let this role in: correct the address, or its pg_hba.conf",
}
# What libpq says while connecting has no code; these are the words of an English server.
_WORDS = {
    "password authentication failed": "28P01",
    "too many clients": "53300",
    "too many connections": "53300",
    "remaining connection slots": "53300",
    "starting up": "57P03",
    "not yet accepting connections": "57P03",
    "not accepting connections": "57P03",
    "shutting down": "57P01",
    "terminating connection due to": "57P01",
    "session is read-only": "25006",
    "in hot standby mode": "25006",
    "no pg_hba.conf entry": "28000",
}


def explained(error: Exception, store: str, secrets: Iterable[str]) -> BackendUnavailable:
    """Return an error that says what happened and what to do, without these secrets."""
    if isinstance(error, TimeoutError):
        return BackendUnavailable(f"{store} did not answer in time.")
    text = _said(error)
    for secret in secrets:
        text = text.replace(secret, "***")
    advice = _ADVICE.get(_code(error, text), "")
    return BackendUnavailable(f"{store} can't be used{f' ({advice})' if advice else ''}: {text}")


def _code(error: Exception, text: str) -> str:
    code = getattr(error, "sqlstate", None)
    if isinstance(code, str):
        return code
    lower = text.lower()
    if "does not exist" in lower and 'database "' in lower:
        return "3D000"
    return next((found for words, found in _WORDS.items() if words in lower), "")


def _said(error: Exception) -> str:
    """Return what the driver says, on one line, unless it may quote an address."""
    module, _, _ = type(error).__module__.partition(".")
    ours = module in ("psycopg", "psycopg_pool", "socket", "builtins")
    if not ours or (type(error).__name__ == "ProgrammingError" and not _has_code(error)):
        return type(error).__name__
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    return " ".join((primary or message_of(error)).split()) or type(error).__name__


def _has_code(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) is not None


class Found(NamedTuple):
    """What a server says of itself."""

    number: int
    version: str
    is_standby: bool
    is_read_only: bool
    encoding: str
    synchronous_commit: str
    standbys: str
    fsync: str
    full_page_writes: str
    schema: str | None
    store_ms: int
    unlogged: list[str]
    isolation: str
    other_schemas: list[str]


FINDINGS = (
    "clock-offset",
    "fsync",
    "full-page-writes",
    "isolation",
    "other-schema",
    "synchronous-commit",
    "unlogged-tables",
)
_OFFSET_MS = 1000

INSPECT = b"""
    SELECT convert_to(json_build_array(
        current_setting('server_version_num')::int, current_setting('server_version'),
        pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
        current_setting('server_encoding'), current_setting('synchronous_commit'),
        current_setting('synchronous_standby_names'), current_setting('fsync'),
        current_setting('full_page_writes'), coalesce($1, current_schema()),
        floor(date_part('epoch', clock_timestamp()) * 1000)::bigint,
        (SELECT coalesce(json_agg(c.relname), '[]') FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = coalesce($1, current_schema()) AND c.relkind = 'r'
                AND c.relname LIKE 'anarchon\\_%' AND c.relpersistence <> 'p'),
        current_setting('transaction_isolation'),
        (SELECT coalesce(json_agg(n.nspname), '[]') FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE $1 IS NULL AND c.relname = 'anarchon_format' AND c.relkind = 'r'
                AND n.nspname = ANY (current_schemas(false)) AND n.nspname <> current_schema())
    )::text, 'UTF8')
"""


def findings(found: Found, offset_ms: float, silence: frozenset[str]) -> tuple[Finding, ...]:
    """Return what may cost runs on this server, each with its fix."""
    return tuple(
        Finding(name, text)
        for name, text in _texts(found, offset_ms).items()
        if text and name not in silence
    )


def _texts(found: Found, offset_ms: float) -> dict[str, Any]:
    """Return each finding, or an empty text where all is well."""
    off = found.synchronous_commit == "off"
    local = found.synchronous_commit == "local" and found.standbys
    return {
        "clock-offset": abs(offset_ms) > _OFFSET_MS
        and f"PostgreSQL's clock and this host's differ by {abs(offset_ms) / 1000:.1f} s: slots "
        "are due by the earlier of both readings; let both hosts keep time with NTP.",
        "fsync": found.fsync == "off"
        and "PostgreSQL runs with fsync=off: a power cut can ruin the whole database, and then "
        "slots run again; set fsync=on.",
        "full-page-writes": found.full_page_writes == "off"
        and "PostgreSQL runs with full_page_writes=off: a power cut can ruin pages, and then "
        "slots run again; set full_page_writes=on, unless the file system never tears a page.",
        "isolation": found.isolation != "read committed"
        and f"Transactions of this role are {found.isolation} by default: calls that meet are "
        "undone and repeated, and each time the server logs an error; run ALTER ROLE … SET "
        "default_transaction_isolation = 'read committed' for the role of this service.",
        "other-schema": found.other_schemas
        and f"The store is in the schema {found.schema}, the current one, and the search_path has "
        f"another store in {', '.join(found.other_schemas)}: instances that use different ones "
        "run every slot twice; name it, as in PostgresBackend(..., schema=…), in all of them.",
        "synchronous-commit": (off or local)
        and f"PostgreSQL runs with synchronous_commit={found.synchronous_commit}: claims that "
        f"were acknowledged are lost in a {'crash' if off else 'failover'}, and then slots run "
        "again; run ALTER ROLE … SET synchronous_commit = on for the role of this service.",
        "unlogged-tables": found.unlogged
        and f"Tables of the store are not logged ({', '.join(found.unlogged)}): a crash empties "
        "them, and then slots run again; run ALTER TABLE … SET LOGGED for each.",
    }
