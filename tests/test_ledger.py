"""tests/spec.md and tests/cases.md name a test for every promise, and those tests ran.

Without the variable ANARCHON_OUTCOMES (set by tox in the environment `full`, where it names
the outcomes of the session so far) only the existence of the tests is checked.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SECTIONS = range(1, 13)
CASES = 88

# What a release leaves to later ones; a row may say `later:` and one of these. Nothing at present.
LATER: frozenset[str] = frozenset()

ROW = re.compile(
    r"^\| (?P<id>[0-9]+\.[0-9]+|BR-[0-9]{3}) \| (?P<text>[^|]+) \| (?P<where>[^|]+) \|$"
)
TEST = re.compile(r"`(tests/[\w./]+\.py::[\w:]+)`")


class Row(NamedTuple):
    """A promise or a case, with the tests that show it or the step that brings it."""

    id: str
    text: str
    tests: tuple[str, ...]
    later: str | None


def rows(name: str) -> list[Row]:
    found = []
    for line in (TESTS / name).read_text(encoding="utf-8").splitlines():
        match = ROW.match(line)
        if match:
            where = match["where"].strip()
            later = where.rpartition("later: ")[2] if "later: " in where else None
            found.append(Row(match["id"], match["text"], tuple(TEST.findall(where)), later))
    return found


EVERYTHING = [*rows("spec.md"), *rows("cases.md")]


@functools.cache
def defined(file: str) -> frozenset[str]:
    """Return the names of the functions of a file, those of classes as ``Class::name``."""
    path = ROOT / file
    if not path.exists():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            names.update(f"{node.name}::{n.name}" for n in node.body if hasattr(n, "name"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return frozenset(names)


@functools.cache
def published() -> frozenset[str]:
    """Return the tests that anarchon publishes for backends, which other files inherit."""
    files = [*ROOT.glob("anarchon/testing*.py"), *ROOT.glob("anarchon/testing/*.py")]
    names = set()
    for path in [*files, *ROOT.glob("anarchon/_testing_contract/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names.add(node.name)
    return frozenset(names)


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    here = defined(file)
    owner, _, method = name.rpartition("::")
    return name in here or (owner in here and method in published())


@functools.cache
def told() -> list[tuple[str, str]]:
    """Return every test of the session so far, and what became of it."""
    text = Path(os.environ["ANARCHON_OUTCOMES"]).read_text(encoding="utf-8")
    return [tuple(json.loads(line)) for line in text.splitlines()]


@functools.cache
def outcomes() -> dict[str, set[str]]:
    """Return what became of every test of the session, parameters cut off."""
    found: dict[str, set[str]] = {}
    for nodeid, outcome in told():
        found.setdefault(nodeid.partition("[")[0], set()).add(outcome)
    return found


def collected() -> list[str]:
    """Return every test that there is, except those of this file."""
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "tests"]
    done = subprocess.run(
        [*command, "--ignore", "tests/test_ledger.py", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "ANARCHON_OUTCOMES"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


def test_every_section_of_the_specification_is_covered():
    sections = {int(row.id.partition(".")[0]) for row in rows("spec.md")}
    assert sections == set(SECTIONS)


def test_every_case_is_covered():
    assert len({row.id for row in rows("cases.md")}) == CASES


def test_no_row_is_there_twice_and_every_line_of_a_table_is_a_row():
    for name in ("spec.md", "cases.md"):
        ids = [row.id for row in rows(name)]
        assert sorted(set(ids)) == sorted(ids)
        lines = (TESTS / name).read_text(encoding="utf-8").splitlines()
        tables = [line for line in lines if line.startswith("| ") and not line.startswith("| id ")]
        assert [line for line in tables if not ROW.match(line)] == []


@pytest.mark.parametrize("row", EVERYTHING, ids=lambda row: row.id)
def test_every_row_names_its_tests_or_what_brings_them(row):
    assert row.tests or row.later, f"{row.id} names no test: {row.text}"
    assert row.later is None or row.later in LATER
    missing = [test for test in row.tests if not exists(test)]
    assert not missing, f"{row.id} names tests that don't exist: {missing}"


WHOLE = pytest.mark.skipif(
    "ANARCHON_OUTCOMES" not in os.environ, reason="needs a whole session (tox)"
)


@WHOLE
def test_every_test_ran_once():
    run = Counter(nodeid for nodeid, _ in told() if not nodeid.startswith("tests/test_ledger.py"))
    there = Counter(collected())
    assert there.total() > 1000
    assert (there - run, run - there) == (Counter(), Counter())


@WHOLE
@pytest.mark.parametrize("row", EVERYTHING, ids=lambda row: row.id)
def test_every_named_test_ran_and_was_not_skipped(row):
    for test in row.tests:
        assert outcomes().get(test) == {"passed"}, f"{row.id}: {test}: {outcomes().get(test)}"
