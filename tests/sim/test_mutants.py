"""Each weakened rule dies by the name of an invariant; the source as it is passes before."""

import pytest

from tests.sim import mutants
from tests.sim.weaknesses import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_an_invariant_notices(mutant):
    mutants.unchanged(mutant.hunt, 0)
    seed, name, text = mutants.verdict(mutant)
    for before in range(1, min(seed + 1, mutants.SEEDS)):
        mutants.unchanged(mutant.hunt, before)
    assert name in mutant.invariants, text or f"{seed} simulations noticed nothing"


def test_there_are_enough_mutants_of_enough_invariants():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12
    assert len({name for mutant in MUTANTS for name in mutant.invariants}) >= 12
