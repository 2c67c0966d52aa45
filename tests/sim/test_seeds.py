"""Two hundred noisy simulations: every invariant of the core, whatever goes wrong.

A violation's text begins with the invariant's name and ends with its seed, which
``python -m tests.sim --seed N --trace`` shows from beginning to end.
"""

import hashlib

import pytest

from tests.sim.scenario import Scenario

SEEDS = 200
CHUNK = 10


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_invariant_holds(first):
    for seed in range(first, first + CHUNK):
        Scenario(seed).run()


def trace_of(seed):
    digest = hashlib.sha256()
    scenario = Scenario(seed)
    scenario.referee.log = lambda line: digest.update(line.encode())
    scenario.run()
    return digest.hexdigest()


def test_a_seed_gives_the_same_simulation_again():
    assert trace_of(3) == trace_of(3)
    assert trace_of(3) != trace_of(4)
