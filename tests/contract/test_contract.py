"""The contract itself: importable by others, and failed by a backend that breaks a rule."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from anarchon import testing

BROKEN = """
from anarchon.backends.memory import MemoryBackend
from anarchon.testing import LeaseBackendContract

class Broken(MemoryBackend):
    def renew(self, leases, *, owner, lease_ms):
        answer = super().renew(leases, owner=owner, lease_ms=lease_ms)
        return answer._replace(lost=())

class TestBroken(LeaseBackendContract):
    def make_backend(self, folder):
        return Broken()
"""


def test_a_backend_that_breaks_a_rule_fails_and_the_test_says_which(tmp_path):
    """As a third party runs it, with the comparison of each assertion."""
    (tmp_path / "test_theirs.py").write_text(textwrap.dedent(BROKEN))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py"]
    done = subprocess.run(
        [*command, "-k", "not_for_anybody_else or never_creates or names_what_is_lost"],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed" in done.stdout
    assert "test_it_never_creates_a_record" in done.stdout
    assert "assert not True" in done.stdout


def test_a_subclass_has_to_say_which_backend(tmp_path):
    with pytest.raises(NotImplementedError):
        testing.BackendContract().make_backend(tmp_path)


def test_no_test_hides_another_one_of_the_same_name():
    names = Counter(
        name
        for part in testing.LeaseBackendContract.__mro__
        for name in vars(part)
        if name.startswith("test_")
    )
    assert len(names) > 150
    assert [name for name, times in names.items() if times > 1] == []


def test_importing_it_for_a_service_needs_no_pytest():
    program = "import sys, anarchon.testing as t; t.FaultyBackend, t.ClaimOnly, t.ManualClock"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print('pytest' in sys.modules)"],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_every_public_name_is_there():
    for name in testing.__all__:
        assert getattr(testing, name).__doc__
    with pytest.raises(AttributeError, match="nothing"):
        _ = testing.nothing


def test_what_needs_another_clock_is_not_collected(tmp_path):
    """A store that says what its clock can do skips nothing."""

    class OnAServer(testing.LeaseBackendContract):
        lease_clock = "may step"
        clock_can_be_set = False

    class OnOneMachine(testing.LeaseBackendContract):
        lease_clock = "steady"
        clock_can_be_set = True

    def collected(contract):
        return {name for name in dir(contract) if getattr(contract, name) and "test_" in name[:5]}

    everything = collected(testing.LeaseBackendContract)
    assert everything - collected(OnOneMachine) >= {"test_floats_cost_no_heartbeat"}
    assert everything - collected(OnAServer) >= {
        "test_its_word_is_enough",
        "test_a_step_forward_takes_no_run_from_a_healthy_owner",
        "test_records_are_kept_for_thirty_days",
    }
    assert collected(OnAServer) | collected(OnOneMachine) > collected(OnAServer)
