"""What is told of a seed that fails: its story, how to see it again, and a smaller one."""

import pytest

from anarchon._core_held import Held
from tests.sim.__main__ import parsed, shape_of
from tests.sim.scenario import Scenario
from tests.sim.shape import Shape
from tests.sim.shrink import fails, shrink
from tests.sim.sweep import sweep
from tests.sim.trace import LAST, short_trace

SEED = 0
FREEZES = Shape(kinds=("freeze", "outage"))


@pytest.fixture
def without_margin(monkeypatch):
    """Let runners hold on to their leases to the very end."""
    honest = Held.extend
    monkeypatch.setattr(Held, "extend", lambda held, sent, left, _: honest(held, sent, left, 0.0))


def test_a_seed_that_fails_tells_its_story_in_a_page(without_margin):
    *story, last = short_trace(SEED, FREEZES)
    assert last.startswith("self-fence: ")
    assert 2 < len(story) <= LAST
    run = next(line for line in story if " starts " in line).split()[-1]
    assert sum(run in line for line in story) > 1


def test_a_seed_that_fails_becomes_small_and_is_played_again_by_its_command(without_margin):
    said = []
    shape = FREEZES._replace(hosts=1, jobs=1)
    small, whole = shrink(SEED, shape, said.append), Scenario(SEED, shape)
    assert len(small.faults) < len(whole.faults)
    assert small.seconds <= whole.noise_seconds
    args = parsed(said[-1].split()[3:])
    assert (args.seed, shape_of(args)) == (SEED, small)
    assert fails(args.seed, shape_of(args)).name == "self-fence"


def test_a_sweep_tells_what_failed_and_what_happened(without_margin, capsys):
    assert sweep([SEED], FREEZES, jobs=1) == 1
    said = capsys.readouterr().out
    assert f"{FREEZES.command(SEED)} --shrink" in said
    assert "violations: 1 {'self-fence': 1}" in said


def test_what_is_cut_off_changes_nothing_of_what_is_drawn():
    whole = Scenario(SEED)
    cut = Scenario(SEED, Shape(hosts=1, jobs=1, faults=(1, 3), seconds=5.0))
    assert [fault for fault in whole.faults if fault.number in (1, 3)] == cut.faults
    assert cut.hosts[0].trip == whole.hosts[0].trip
    (name,) = cut.jobs
    assert cut.jobs[name].grid.period_ms == whole.jobs[name].grid.period_ms
    assert cut.settings == whole.settings


def test_a_seed_that_holds_is_left_as_it_is():
    said = []
    shape = Shape(faults=(), seconds=1.0)
    assert shrink(SEED, shape, said.append) == shape
    assert "nothing fails" in said[0]
