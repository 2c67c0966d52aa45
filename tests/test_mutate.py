"""The mutation run itself: it makes the changes it names, and sees which ones tests notice."""

from __future__ import annotations

import ast
from unittest.mock import ANY

import pytest

from tests import mutate
from tests.mutate_forks import HANGS_SECONDS, MOST_BYTES, Order, Outcome
from tests.mutations import mutants

SOURCE = '''"""Docstring."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    x = 1

def least(a: int, b: int = 2) -> int:
    """Docstring."""
    if a < b and not b == "ä":
        return a
    b += 1
    return b
'''


def test_every_kind_of_change_is_made_once():
    found = [(mutant.line, mutant.what) for mutant in mutants(SOURCE)]
    assert sorted(found) == sorted(
        [
            (6, "2 -> 3"),
            (8, "drop Not"),
            (8, "'ä' -> 'ä!'"),
            (8, "Eq -> NotEq (0)"),
            (8, "And -> Or"),
            (8, "Lt -> GtE (0)"),
            (8, "Lt -> LtE (0)"),
            (9, "return nothing"),
            (10, "1 -> 2"),
            (10, "remove: b += 1"),
            (11, "return nothing"),
        ]
    )


def test_every_mutant_is_a_program_of_its_own():
    sources = [mutant.source for mutant in mutants(SOURCE)]
    for source in sources:
        ast.parse(source)
    assert len({*sources, SOURCE}) == len(sources) + 1


def test_a_run_resumes_and_tries_survivors_again_when_tests_change(tmp_path, monkeypatch):
    monkeypatch.setattr(mutate, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    test = tmp_path / "test_it.py"
    test.write_text("one")
    (tmp_path / mutate.CONTRACT).mkdir(parents=True)
    survivor, victim = mutants(SOURCE)[:2]
    journal = mutate.Journal(tmp_path / "least.py", SOURCE, ["test_it.py"])
    journal.add(mutate.Verdict(survivor, "survived"))
    journal.add(mutate.Verdict(victim, "killed"))
    assert journal.known() == {survivor.name: "survived", victim.name: "killed"}
    test.write_text("two")
    changed = mutate.Journal(tmp_path / "least.py", SOURCE, ["test_it.py"])
    assert changed.known() == {victim.name: "killed"}
    assert changed.tried() == {survivor.name, victim.name}
    assert mutate.Journal(tmp_path / "least.py", SOURCE + "#", ["test_it.py"]).known() == {}


def test_an_explained_survivor_is_not_counted(tmp_path, monkeypatch, capsys):
    file = tmp_path / "least.py"
    explanations = tmp_path / "explained.md"
    explanations.write_text("- least.py: `b += 1` -> `pass`: nobody can see it\n")
    monkeypatch.setattr(mutate, "EXPLAINED", explanations)
    removal = next(m for m in mutants(SOURCE) if m.what == "remove: b += 1")
    boundary = next(m for m in mutants(SOURCE) if m.what == "Lt -> LtE (0)")
    verdicts = [mutate.Verdict(removal, "survived"), mutate.Verdict(boundary, "survived")]
    assert mutate.report(file, SOURCE, verdicts, 10) == 1
    out = capsys.readouterr().out
    assert "least.py:8: survived: Lt -> LtE (0)" in out
    assert "b += 1" not in out


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Give a function that makes a bench for a file of a package, with these tests."""
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    package = tmp_path / "anarchon"
    package.mkdir()
    (package / "__init__.py").write_text("")
    options = '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
    (tmp_path / "pyproject.toml").write_text(options)
    made = []

    def make(name, source, tests):
        (package / name).write_text(source)
        (tmp_path / "test_it.py").write_text(tests)
        (tmp_path / "copies").mkdir()
        bench = mutate.Bench(package / name, ["test_it.py"], "", str(tmp_path / "copies" / "0"))
        made.append(bench)
        return bench

    yield make
    for bench in made:
        bench.close()


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("pass", "survived"),
        ("assert False", "killed"),
        (f"bytearray({MOST_BYTES})", "killed"),
        ("while True: pass", "timeout"),
        ("import signal; signal.pause()", "timeout"),
        ("import pytest; pytest.exit('enough')", "ended with 2"),
        ("import os; os._exit(7)", "ended with 7"),
    ],
)
def test_a_mutant_is_judged_by_its_tests(project, body, result):
    bench = project("least.py", SOURCE, f"def test_it():\n    {body}\n")
    bench.limit = Order(cpu_seconds=2, clock_seconds=5 if "pause" in body else 120)
    outcome = bench.run(SOURCE)
    assert outcome.result == result
    assert outcome.by == ("test_it.py::test_it" if result == "killed" else "")


IMPORTS = """
def test_first():
    pass

def test_second():
    from anarchon import value
    assert value.VALUE == 1
"""
READS = IMPORTS.replace("from anarchon import value", "import pkgutil").replace(
    "value.VALUE", "int(pkgutil.get_data('anarchon', 'value.lua'))"
)


@pytest.mark.parametrize(
    ("name", "source", "tests"), [("value.py", "VALUE = {}\n", IMPORTS), ("value.lua", "{}", READS)]
)
def test_each_run_sees_its_own_source(project, name, source, tests):
    bench = project(name, source.format(1), tests)
    results = [bench.run(source.format(value)) for value in (1, 2, 1, 3)]
    assert [outcome.result for outcome in results] == ["survived", "killed"] * 2
    assert {outcome.by for outcome in results} == {"", "test_it.py::test_second"}


def test_a_source_that_is_no_program_is_killed_and_the_next_run_goes_on(project):
    bench = project("value.py", "VALUE = 1\n", f"from anarchon import value\n{IMPORTS}")
    assert bench.run("VALUE = (\n")[:2] == ("killed", "test_it.py")
    assert bench.run("VALUE = 1\n").result == "survived"


WRITES = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    with open(pathlib.Path(__file__).with_name("order"), "a") as out:
        out.write(str(number))
    import anarchon.value
    assert anarchon.value.VALUE != number
"""


def test_whoever_killed_lately_comes_first(project, tmp_path):
    bench = project("value.py", "VALUE = 9\n", WRITES)
    for value in (9, 2, 1, 1, 9):
        bench.run(f"VALUE = {value}\n")
    assert (tmp_path / "order").read_text() == "012" + "012" + "201" + "1" + "120"


PLUGINS = 'pytest_plugins = ["tests.servers.fixtures"]\n'
USES_A_SERVER = """
import pathlib

def test_it(shared_server):
    server = shared_server("redis-8.2")
    assert server.ask("PING") == b"PONG"
    with open(pathlib.Path(__file__).with_name("folders"), "a") as out:
        print(server.ask("CONFIG", "GET", "dir")[1].decode(), file=out)
    import anarchon.value, time
    time.sleep(anarchon.value.VALUE)
    assert anarchon.value.VALUE == 0
"""


def test_a_conftest_that_imports_the_package_sees_each_mutant(project, tmp_path):
    imports = "import anarchon.value\nVALUE = anarchon.value.VALUE\n"
    (tmp_path / "conftest.py").write_text(imports + PLUGINS)
    body = "def test_it():\n    import conftest\n    assert conftest.VALUE == 1\n"
    bench = project("value.py", "VALUE = 1\n", body)
    assert bench.run("VALUE = 1\n").result == "survived"
    assert bench.run("VALUE = 2\n") == ("killed", "test_it.py::test_it", ANY, False)
    assert bench.run("VALUE = 0 / 0\n") == ("killed", "conftest.py", ANY, False)
    assert bench.run("VALUE = 1\n").result == "survived"


@pytest.mark.parametrize("named", ["test_it.py", "conftest.py"])
def test_servers_are_started_once_and_again_after_a_run_that_hung(project, tmp_path, named):
    bench = project("value.py", "VALUE = 0\n", USES_A_SERVER)
    with (tmp_path / named).open("a") as file:
        file.write(PLUGINS)
    for value in (0, 0, 0, HANGS_SECONDS + 0.5, 0):
        bench.run(f"VALUE = {value}\n")
    own, one, same, hung, again, after = (tmp_path / "folders").read_text().splitlines()
    assert one == same == hung
    assert len({own, one, again, after}) == 4


def test_nothing_is_said_of_mutants_when_the_unchanged_source_fails(project):
    bench = project("least.py", SOURCE, "def test_it():\n    assert False\n")
    with pytest.raises(SystemExit, match=r"killed: test_it\.py::test_it"):
        bench.measure()


def test_a_run_that_no_test_decides_ends_everything():
    class Strange:
        def run(self, _source):
            return Outcome("ended with 3")

    with pytest.raises(SystemExit, match="ended with 3"):
        list(mutate.tried(mutants(SOURCE), [Strange()]))
