"""The command, as continuous integration has it: half a minute, on three stores side by side."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.chaos.__main__ import command

PLANTS = {
    # A loser of the race runs the attempt as well.
    "double": {"each_attempt_starts_once", "each_attempt_has_one_winner"},
    # The run is recorded as a success, and no handler was called.
    "unrun": {"successes_were_run"},
    # Some slots are taken for decided, and nobody is asked.
    "deaf": {"every_slot_is_explained"},
}


# What is shown besides: the ledger's lines, the records, or that there is neither.
SHOWN = {
    "double": r"^\d+\.\d{3} p\d +started ",
    "unrun": r"^record 1: success +by p\d, ",
    "deaf": "lost: it was due while an instance lived, and nothing is recorded of it",
}


def chaos(*options: str, **environment: str) -> tuple[int, str]:
    """Run the command; return its exit status and what it said."""
    env = {**os.environ, **environment}
    done = subprocess.run(command(*options), capture_output=True, text=True, check=False, env=env)
    assert done.stderr == ""
    return done.returncode, done.stdout


def figure(said: str, name: str) -> list[int]:
    """Return a figure of each of the stores."""
    return [int(value) for value in re.findall(rf"^  {name}: (\d+)", said, re.MULTILINE)]


@pytest.mark.slow(reason="faults strike for half a minute, and then all they left is settled")
@pytest.mark.serial
def test_fleets_under_random_faults_explain_every_slot():
    status, said = chaos("--store", "sqlite,redis,postgres", "--minutes", "0.5")
    assert status == 0, said
    assert figure(said, "lost") == figure(said, "doubled attempts") == [0, 0, 0]
    assert min(figure(said, "of those that had to be")) > 10
    assert min(figure(said, "faults")) >= 5


@pytest.mark.serial
def test_every_success_has_one_invoice_in_a_table_without_a_unique_key():
    status, said = chaos(
        "--store", "sqlite,postgres", "--work", "invoices", "--minutes", "0.2", "--pause", "0.6"
    )
    assert status == 0, said
    assert figure(said, "violations") == [0, 0]
    assert min(figure(said, "faults")) >= 2


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_found(plant, tmp_path):
    options = ("--calm", "--minutes", "0.08", "--seed", "7", "--plant", plant)
    status, said = chaos(*options, TMPDIR=str(tmp_path))  # where it leaves the ledger
    kinds = set(re.findall(r"^(\w+): \w+ @ \d+: ", said, re.MULTILINE))
    assert status == 1
    assert kinds >= PLANTS[plant], said
    assert "seed 7," in said
    assert re.search(SHOWN[plant], said, re.MULTILINE), said
