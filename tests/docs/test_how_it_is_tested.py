"""What the page about tests says of them is so."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks, coded, rows, text_of
from tests.servers.places import STORES
from tests.sim import faults
from tests.sim.rare_weaknesses import MUTANTS
from tests.sim.shape import MOST_INSTANCES
from tests.test_ledger import CASES

PAGE = "how-it-is-tested.md"
FLAT = " ".join(text_of(PAGE).split())
NAME = re.compile(r"(?:fail|Violation|hold)\(\s*\"([a-z-]+)\"")
COMMANDS = [line[2:] for block in blocks(PAGE, "console") for line in block.text.splitlines()]
MODULES = sorted(
    {found[1] for found in map(re.compile(r"-m (tests\.\w+)").search, COMMANDS) if found}
)


def test_the_invariants_are_those_that_the_simulator_can_fail_by():
    shown = [name for row in rows(PAGE, "invariant", "what it says") for name in coded(row[0])]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests/sim").glob("*.py")]
    assert sorted(shown) == sorted({name for text in sources for name in NAME.findall(text)})


def test_the_faults_are_those_of_the_simulator():
    shown = [name for row in rows(PAGE, "fault", "what it does") for name in coded(row[0])]
    assert sorted(shown) == sorted(faults.KINDS)


def test_numbers_that_the_page_tells():
    assert f"{CASES} failures" in FLAT
    assert len(MUTANTS) >= 50
    assert "fifty and more rules" in FLAT
    assert MOST_INSTANCES == 4
    assert "up to four hosts" in FLAT


def test_every_store_that_tests_know_is_named():
    section = FLAT.partition("One contract for every store")[2].partition("## ")[0]
    named = {
        "redis-6.2": "Redis 6.2, 7.0 and 8.2",
        "redis-7.0": "Redis 6.2, 7.0 and 8.2",
        "redis-8.2": "Redis 6.2, 7.0 and 8.2",
        "valkey-8": "Valkey 8",
        "redis-cluster": "Redis cluster",
        "postgres-15": "PostgreSQL 15 and 18",
        "postgres-18": "PostgreSQL 15 and 18",
        "pgbouncer-15": "pgbouncer",
    }
    assert set(named) == set(STORES)
    assert [store for store, words in named.items() if words not in section] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_options_of_its_commands_are_there(module):
    asked = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = [command for command in COMMANDS if f" {module} " in command]
    options = {word for command in commands for word in command.split() if word.startswith("--")}
    assert commands
    assert {option for option in options if f"{option} " not in asked.stdout} == set()


def test_figures_name_commands_that_are_on_the_page():
    figures = text_of(PAGE).partition("## Figures")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(tests\.\w+)", figures, re.MULTILINE))
    assert named
    assert named <= {word for command in COMMANDS for word in command.split()}
