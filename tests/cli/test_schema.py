"""`anarchon schema`: the SQL of a store in PostgreSQL, without connecting."""

from __future__ import annotations

import pytest

from anarchon.backends.postgres import ddl
from tests.cli.runner import run

NOWHERE = "postgresql://nobody:secret@192.0.2.1/none"


@pytest.mark.parametrize("backend", [NOWHERE, "postgres://x", "host=192.0.2.1 dbname=none"])
def test_it_prints_the_whole_ddl_without_connecting(backend):
    status, out, err = run("schema", "--backend", backend, "--schema", 'odd "name" %')
    assert (status, err) == (0, "")
    assert out == ddl('odd "name" %')
    assert 'CREATE SCHEMA IF NOT EXISTS "odd ""name"" %";' in out
    assert "secret" not in out


def test_the_environment_may_name_the_store(monkeypatch):
    monkeypatch.setenv("ANARCHON_BACKEND", NOWHERE)
    assert run("schema").out == ddl("public")


def test_the_schema_is_public_by_default():
    assert run("schema", "--backend", NOWHERE).out == ddl("public")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--backend", "sqlite:///x"), "only a store in PostgreSQL"),
        (("--backend", "redis://:secret@host"), "only a store in PostgreSQL"),
        (("--backend", NOWHERE, "--schema", ""), "is no name"),
        (("--backend", NOWHERE, "--schema", "x" * 64), "is no name"),
        ((), "--backend"),
    ],
)
def test_what_can_not_be_meant_is_refused(words, said):
    status, out, err = run("schema", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert "secret" not in err
