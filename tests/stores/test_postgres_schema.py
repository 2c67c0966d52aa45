"""The schema of a store in PostgreSQL: made once, found anywhere, usable with least rights."""

from __future__ import annotations

import os
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anarchon._values import Limits, Owner, Presence, Recorded, RunKey, Won
from anarchon.backends import postgres as postgres_module
from anarchon.backends._postgres_advice import FINDINGS
from anarchon.backends._postgres_schema import grants, names
from anarchon.backends.postgres import PostgresBackend, ddl
from anarchon.errors import BackendError, BackendUnavailable, ConfigurationError, ServerTooOld
from tests.stores.helpers import claim, finish, now_ms
from tests.stores.postgres_places import database_on

LIMITS = Limits(connect=20.0, quick=10.0, call=10.0)
FIRST_STARTS = int(os.environ.get("ANARCHON_TEST_FIRST_STARTS", "24"))
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(params=["postgres-15", "postgres-18"])
def database(request, shared_server):
    with database_on(shared_server, request.param) as database:
        yield database


@pytest.fixture
def role(database):
    """Name a role without rights, and what leads in as it."""
    name = f"service {uuid.uuid4()}"
    database.server.create_role(name)
    yield name
    database.ask(f'DROP OWNED BY "{name}"')
    database.server.ask(f'DROP ROLE "{name}"')


def opened(connection, **options) -> PostgresBackend:
    backend = PostgresBackend(connection, **options)
    backend.open(LIMITS)
    return backend


def works(backend) -> None:
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
    assert [run.status for run in backend.history("job", limit=9)] == ["success"]


def of(database, role) -> str:
    return database.server.conninfo(database.name, user=role)


# --- making it ---


def test_many_first_starts_at_once_make_one_schema(database):
    gate = threading.Barrier(FIRST_STARTS)
    failed: list[Exception] = []

    def start() -> None:
        backend = PostgresBackend(database.url, schema="jobs")
        try:
            backend.open(LIMITS)
            gate.wait(20)
            backend.prepare(["job"])
        except Exception as error:
            failed.append(error)
        finally:
            backend.close()

    threads = [threading.Thread(target=start) for _ in range(FIRST_STARTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert database.ask("SELECT version FROM jobs.anarchon_format") == [(1,)]
    backend = opened(database.url, schema="jobs")
    works(backend)
    backend.close()


def test_what_somebody_dropped_is_made_again(database):
    backend = opened(database.url)
    backend.prepare([])
    database.ask("DROP INDEX anarchon_open, anarchon_orders")
    database.ask("DROP FUNCTION anarchon_look_v1")
    backend.prepare([])
    works(backend)
    assert backend.look(["job"], owner=Owner("a", "a")).others == 0
    backend.close()


def test_the_ddl_is_all_that_is_needed(database):
    database.ask(ddl("by hand"))
    database.ask(ddl("by hand"))  # and harmless when it is there
    before = database.ask("SELECT count(*) FROM pg_class")
    backend = opened(database.url, schema="by hand")
    backend.prepare([])
    works(backend)
    backend.close()
    assert database.ask("SELECT count(*) FROM pg_class") == before


def test_the_ddl_may_run_beside_first_starts(database):
    gate = threading.Barrier(6)

    def start(number: int) -> None:
        if number % 2:
            with database.connect() as connection:
                gate.wait(20)
                connection.execute(ddl("jobs"))
            return
        backend = opened(database.url, schema="jobs")
        gate.wait(20)
        backend.prepare([])
        backend.close()

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(start, number) for number in range(6)]:
            done.result()
    assert database.ask("SELECT version FROM jobs.anarchon_format") == [(1,)]


@pytest.mark.parametrize(
    "schema", ['q"uote', "back\\slash", "per%cent %s", "sm😀le", "l'apostrophe", "x" * 63, "SELECT"]
)
def test_odd_names_of_schemas(database, schema):
    backend = opened(database.url, schema=schema, namespace="a'b\"c\\d%s😀")
    backend.prepare([])
    works(backend)
    backend.close()
    assert database.ask(
        "SELECT nspname FROM pg_namespace JOIN pg_class c ON c.relnamespace = pg_namespace.oid "
        "WHERE relname = 'anarchon_run'"
    ) == [(schema,)]


@pytest.mark.parametrize("schema", ["", "a$b", "x" * 64, "é" * 32, "a\nb", 7, "\u2400"])
def test_names_that_no_schema_can_have(schema):
    with pytest.raises(ConfigurationError, match="schema"):
        PostgresBackend("postgresql://host", schema=schema)


# --- finding it ---


def test_the_current_schema_is_the_first_that_exists(database, role):
    database.ask('CREATE SCHEMA "first one"')
    database.ask('CREATE SCHEMA "second"')
    database.ask(f'GRANT ALL ON SCHEMA "first one", second TO "{role}"')
    database.server.ask(
        f'ALTER ROLE "{role}" IN DATABASE {database.name} '
        'SET search_path TO nowhere, "first one", second'
    )
    backend = opened(of(database, role))
    backend.prepare([])
    works(backend)
    backend.close()
    assert len(backend.history("job", limit=9)) == 1  # not open: it asks again
    assert database.ask('SELECT count(*) FROM "first one".anarchon_run') == [(1,)]
    assert database.ask("SELECT to_regclass('second.anarchon_run')") == [(None,)]


def test_a_search_path_with_strange_functions_changes_nothing(database, role):
    database.ask(ddl("jobs"))
    database.ask("CREATE SCHEMA trap")
    database.ask(
        "CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
        "AS $$ SELECT 'epoch'::timestamptz $$"
    )
    database.ask("CREATE TABLE trap.anarchon_run (x int)")
    database.server.ask(
        f"ALTER ROLE postgres IN DATABASE {database.name} SET search_path TO trap, pg_catalog"
    )
    try:
        backend = opened(database.url, schema="jobs")
        works(backend)
        backend.close()
    finally:
        database.server.ask(f"ALTER ROLE postgres IN DATABASE {database.name} RESET search_path")


def test_without_a_current_schema_one_must_be_given(database):
    database.ask("DROP SCHEMA public")
    backend = PostgresBackend(database.url)
    with pytest.raises(BackendUnavailable, match="give one"):
        backend.open(LIMITS)
    backend.close()


# --- rights ---


@pytest.fixture
def prepared(database, role):
    """Give a database whose schema somebody else made, and the rights that are documented."""
    script = ddl("jobs")
    database.ask(script)
    grants = [
        line[3:].replace("…", f'"{role}"') for line in script.splitlines() if "GRANT " in line
    ]
    assert len(grants) == 3
    for grant in grants:
        database.ask(grant)
    return database


def test_the_documented_rights_suffice(prepared, role):
    backend = opened(of(prepared, role), schema="jobs")
    backend.prepare(["job"])
    works(backend)
    backend.trigger([RunKey("job", now_ms(), "trigger-1")], data="1")
    backend.pause(None, duration_ms=0)
    speaks = Owner("a", "a", Presence(now_ms(), "{}"))
    for state in ("{}", '{"n":1}'):
        said = speaks._replace(presence=speaks.presence._replace(state=state))
        backend.unfinished(["job"], owner=said)
    assert [(one.token, one.state) for one in backend.instances().instances] == [("a", '{"n":1}')]
    backend.present(Owner("a", "a"))
    assert backend.alert([RunKey("new", 7)], owner=speaks).answers == (True,)
    backend.close()


@pytest.mark.parametrize("right", ["SELECT", "INSERT", "UPDATE", "DELETE"])
@pytest.mark.parametrize("table", ["job", "run", "attempt", "checkpoint", "instance", "alert"])
def test_a_missing_right_is_named(prepared, role, right, table):
    prepared.ask(f'REVOKE {right} ON jobs.anarchon_{table} FROM "{role}"')
    backend = opened(of(prepared, role), schema="jobs")
    with pytest.raises(BackendUnavailable) as caught:
        backend.prepare([])
    backend.close()
    assert f'GRANT {right} ON TABLE "jobs".anarchon_{table} TO "{role}"' in str(caught.value)
    assert str(caught.value).count("GRANT") == 1


def test_a_missing_right_to_call_is_named(prepared, role):
    prepared.ask("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA jobs FROM PUBLIC")
    backend = opened(of(prepared, role), schema="jobs")
    with pytest.raises(BackendUnavailable, match=r"GRANT EXECUTE ON FUNCTION jobs\.anarchon_claim"):
        backend.prepare([])
    backend.close()


class TestRefusals:
    """What the server refuses stands in its log, so these have one of their own database."""

    @pytest.fixture
    def place(self, shared_server):
        server = shared_server("postgres-15")
        name = server.create_database()
        role = f"service {uuid.uuid4()}"
        server.create_role(role)
        yield server, name, role
        server.drop_database(name)
        server.ask(f'DROP ROLE "{role}"')

    def test_who_may_not_create_is_told_what_to_run(self, place):
        server, name, role = place
        for schema, missing in (("public", "schema public"), ("new", f"database {name}")):
            backend = opened(server.conninfo(name, user=role), schema=schema)
            with pytest.raises(BackendUnavailable, match="anarchon schema") as caught:
                backend.prepare([])
            backend.close()
            assert f"permission denied for {missing}" in str(caught.value)

    def test_who_may_not_look_is_told(self, place):
        server, name, role = place
        server.ask(ddl("jobs"), database=name)
        backend = PostgresBackend(server.conninfo(name, user=role), schema="jobs")
        with pytest.raises(BackendUnavailable, match="permission denied for schema jobs"):
            backend.open(LIMITS)
        backend.close()

    def test_a_store_that_was_never_made_is_told(self, place):
        server, name, _ = place
        backend = opened(server.url(name))
        with pytest.raises(BackendUnavailable, match=r"function is missing: run `anarchon schema`"):
            claim(backend, "job", now_ms())
        backend.close()

    def test_another_encoding_is_refused(self, place):
        server = place[0]
        server.ask(
            "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            backend = PostgresBackend(server.url("latin"))
            with pytest.raises(BackendError, match=r"LATIN1.*UTF8"):
                backend.open(LIMITS)
            backend.close()
        finally:
            server.drop_database("latin")


# --- versions ---


def test_a_newer_format_is_refused(database):
    backend = opened(database.url)
    backend.prepare([])
    backend.close()
    database.ask("UPDATE anarchon_format SET version = 2")
    with pytest.raises(BackendError, match="newer anarchon") as caught:
        backend.open(LIMITS)
    assert not isinstance(caught.value, BackendUnavailable)
    backend.close()


def test_an_older_server_is_refused(database, monkeypatch):
    monkeypatch.setattr(postgres_module, "MINIMUM", 99)
    backend = PostgresBackend(database.url)
    with pytest.raises(ServerTooOld, match="99"):
        backend.open(LIMITS)
    backend.close()


def test_the_page_has_the_rights_that_are_needed():
    page = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
    shown = " ".join(page.partition("```sql\n")[2].partition("```")[0].split())
    assert shown == " ".join(grants("jobs", "web")).replace('"', "")


def test_the_page_says_how_many_indexes_there_are():
    page = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
    assert "tables, three indexes and the functions" in page
    assert len(names("jobs").indexes) == 3


def test_the_page_names_every_finding_and_no_other():
    page = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
    table = page.partition("| finding |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == sorted(FINDINGS)
