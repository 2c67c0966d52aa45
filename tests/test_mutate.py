"""The mutation run itself: it makes the changes it names, and sees which ones tests notice."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys

import pytest

from tests import mutate
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
    survivor, victim = mutants(SOURCE)[:2]
    journal = mutate.Journal(tmp_path / "least.py", SOURCE, ["test_it.py"])
    journal.add(mutate.Verdict(survivor, "survived"))
    journal.add(mutate.Verdict(victim, "killed"))
    assert journal.known() == {survivor.name: "survived", victim.name: "killed"}
    test.write_text("two")
    changed = mutate.Journal(tmp_path / "least.py", SOURCE, ["test_it.py"])
    assert changed.known() == {victim.name: "killed"}
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


def status_of(program: str, cpu_seconds: float = 20) -> int:
    command = mutate.limited([sys.executable, "-c", program], cpu_seconds=cpu_seconds)
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=60).returncode


def test_a_mutant_that_loops_or_eats_memory_dies():
    assert status_of("print()") == 0
    assert status_of("while True: pass", 0.5) == -signal.SIGXCPU
    assert status_of(f"bytearray({mutate.MOST_BYTES})") == 1


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("pass", "survived"),
        ("assert False", "killed"),
        (f"bytearray({mutate.MOST_BYTES})", "killed"),
    ],
)
def test_a_mutant_is_judged_by_its_tests(tmp_path, monkeypatch, body, result):
    (tmp_path / "anarchon").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    bench = mutate.Bench(tmp_path / "anarchon" / "least.py", ["test_it.py"])
    assert bench.run(SOURCE) == result
