"""The tables and functions in the database: what they are, whether they are there, making them."""
# ruff: noqa: S608  (statements are put together from constants and the quoted schema alone)

from __future__ import annotations

import json
import pkgutil
import re
from typing import TYPE_CHECKING, NamedTuple

from .._durations import shown
from ..errors import BackendError, BackendUnavailable, ConfigurationError
from ._postgres_wait import ask, ask_table, patience_ms
from .base import FORMAT_VERSION

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

WRITTEN = (
    "namespace",
    "job",
    "run",
    "attempt",
    "checkpoint",
    "completion",
    "instance",
    "alert",
)
FILES = ("tables", "common", "orders", "claim", "settle", "leases", "instances", "fencing")
# Of the functions that are called from outside; why is said in common.sql.
SETTINGS = (
    "SET search_path = pg_catalog SET plan_cache_mode = force_generic_plan SET jit = off\n"
    "SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"
)
LONGEST_NAME = 63  # bytes; PostgreSQL would cut it
_LOCK = 0x616E61726368  # of those who create; any number that nobody else uses


class Names(NamedTuple):
    """What the schema has."""

    tables: tuple[str, ...]
    indexes: tuple[str, ...]
    functions: tuple[str, ...]


def check_schema(schema: object) -> None:
    """Raise `ConfigurationError` unless this can be the name of a schema, or None."""
    if schema is None:
        return
    if (
        isinstance(schema, str)
        and 0 < len(schema.encode(errors="replace")) <= LONGEST_NAME
        and schema.isprintable()
        and "$" not in schema
        and "\u2400" not in schema
    ):
        return
    raise ConfigurationError(
        f"The schema {shown(schema)} is no name: give 1 to {LONGEST_NAME} bytes of printable "
        "characters without a dollar sign, or nothing for the current schema."
    )


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def ddl(schema: str) -> str:
    """Return the statements that create a schema and all that a store needs in it.

    Raises:
        ConfigurationError: There can be no schema of that name.
    """
    check_schema(schema)
    return (
        f"BEGIN ISOLATION LEVEL READ COMMITTED;\n\nSELECT pg_advisory_xact_lock({_LOCK});\n\n"
        f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n\n{_objects(schema)}\n"
        "COMMIT;\n\n-- What the role of a service needs, if it is another one:\n"
        + "".join(f"-- {right}\n" for right in grants(schema, "…"))
    )


def grants(schema: str, role: str) -> list[str]:
    """Return the statements that let a role use a store, and create nothing."""
    name = quoted(schema)
    tables = ", ".join(f"{name}.anarchon_{table}" for table in WRITTEN)
    return [
        f"GRANT USAGE ON SCHEMA {name} TO {role};",
        f"GRANT SELECT ON {name}.anarchon_format TO {role};",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role};",
    ]


def _objects(schema: str) -> str:
    parts = [pkgutil.get_data("anarchon.backends", f"sql/{name}.sql") for name in FILES]
    text = "\n".join(part.decode() for part in parts if part is not None)
    return text.replace("%settings%", SETTINGS).replace("%schema%", quoted(schema))


def names(schema: str) -> Names:
    """Return what the schema has: its relations by their full names, its functions by name."""
    text = _objects("s")

    def full(pattern: str) -> tuple[str, ...]:
        return tuple(f"{quoted(schema)}.{name}" for name in re.findall(pattern, text))

    return Names(
        full(r'CREATE TABLE IF NOT EXISTS "s"\.(\w+)'),
        full(r"INDEX IF NOT EXISTS (\w+)"),
        tuple(re.findall(r'CREATE OR REPLACE FUNCTION "s"\.(\w+)', text)),
    )


# $1: the relations, of which the first $2 are tables; $3: the functions, in the schema $4.
_STATE = b"""
    WITH relation AS MATERIALIZED (
        SELECT name, n <= $2::int AS is_table, to_regclass(name) AS id
        FROM json_array_elements_text($1::json) WITH ORDINALITY AS t (name, n)
    ), function AS MATERIALIZED (
        SELECT name, (
            SELECT p.oid FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace
            WHERE p.proname = name AND s.nspname = $4 LIMIT 1
        ) AS id FROM json_array_elements_text($3::json) AS t (name)
    )
    SELECT convert_to(json_build_array(
        EXISTS (SELECT FROM relation WHERE id IS NULL)
            OR EXISTS (SELECT FROM function WHERE id IS NULL),
        (SELECT coalesce(json_agg(wanted || ' ON TABLE ' || name), '[]')
            FROM relation, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS wanted
            WHERE is_table AND NOT has_table_privilege(id, wanted)
                AND (wanted = 'SELECT' OR name NOT LIKE '%anarchon_format')),
        (SELECT coalesce(json_agg('EXECUTE ON FUNCTION ' || id::regprocedure), '[]')
            FROM function WHERE NOT has_function_privilege(id, 'EXECUTE')),
        quote_ident(current_user)
    )::text, 'UTF8')
"""


def prepare(pgconn: PGconn, schema: str, deadline: float) -> None:
    """Create what is missing, all of it in one transaction; nothing is done when all is there.

    Raises:
        BackendUnavailable: A right is missing.
    """
    if _is_complete(pgconn, schema, deadline):
        return
    ask(pgconn, _creation(schema, patience_ms(deadline)).encode(), (), deadline)
    if not _is_complete(pgconn, schema, deadline):
        raise BackendUnavailable(
            f"What a store needs can't be found in the schema {quoted(schema)} after it was made: "
            "was it dropped just now?"
        )


def _is_complete(pgconn: PGconn, schema: str, deadline: float) -> bool:
    there = names(schema)
    relations = json.dumps(there.tables + there.indexes).encode()
    functions = json.dumps(there.functions).encode()
    counted = str(len(there.tables)).encode()
    answer = ask(pgconn, _STATE, (relations, counted, functions, schema.encode()), deadline)
    assert answer is not None
    is_incomplete, on_tables, on_functions, role = json.loads(answer)
    if is_incomplete:
        return False
    if missing := on_tables + on_functions:
        raise BackendUnavailable(
            f"The role {role} lacks rights on the store in the schema {quoted(schema)}; run, as "
            "its owner: " + " ".join(f"GRANT {right} TO {role};" for right in missing)
        )
    return True


def _creation(schema: str, patience: int) -> str:
    """Return one statement that creates what is missing, by whoever comes first.

    The lock is a transaction's, and whoever waited for it looks again, in a way that shows what
    is there now also where a transaction sees what was there when it began. Two who create at
    once would fail, IF NOT EXISTS or not. It is one statement and not a transaction of several, so
    it passes any pooler.
    """
    there = names(schema)
    wanted = [f"to_regclass({_literal(name)}) IS NULL" for name in there.tables + there.indexes]
    wanted += [
        f"to_regproc({_literal(f'{quoted(schema)}.{name}')}) IS NULL" for name in there.functions
    ]
    return f"""DO $anarchon_do$ BEGIN
        PERFORM set_config('lock_timeout', '{patience}', true);
        PERFORM pg_advisory_xact_lock({_LOCK});
        IF to_regnamespace({_literal(quoted(schema))}) IS NULL THEN
            CREATE SCHEMA {quoted(schema)};
        END IF;
        IF {" OR ".join(wanted)} THEN
            EXECUTE $anarchon_ddl${_objects(schema)}$anarchon_ddl$;
        END IF;
    END $anarchon_do$"""


def _literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def check_format(pgconn: PGconn, schema: str, deadline: float) -> None:
    """Raise `BackendError` when what is stored has a format that this version doesn't know."""
    table = quoted(schema) + ".anarchon_format"
    there = ask(pgconn, b"SELECT to_regclass($1) IS NOT NULL", (table.encode(),), deadline)
    if there != b"\x01":
        return
    found = ask_table(pgconn, f"SELECT max(version) FROM {table}", deadline)
    version = int(found or FORMAT_VERSION)
    if version > FORMAT_VERSION:
        raise BackendError(
            f"The store in the schema {quoted(schema)} has format {version}, written by a newer "
            f"anarchon; this one knows format {FORMAT_VERSION}: upgrade it, or use another schema."
        )
