"""Each weakened rule dies by the name of an invariant; the source as it is passes before."""

import pytest

from tests.sim import mutants
from tests.sim.rare_weaknesses import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_an_invariant_notices(mutant):
    order = mutants.seeds_from(mutants.LATELY.get(mutant.name, 0))
    mutants.unchanged(mutant.hunt, order[0])
    seed, name, text = mutants.verdict(mutant)
    hunted = order[1 : order.index(seed) + 1] if seed in order else order[1:]
    for before in hunted:
        mutants.unchanged(mutant.hunt, before)
    assert name in mutant.invariants, text or f"{seed} simulations noticed nothing"


def test_hunts_begin_at_mutants_that_there_are():
    assert set(mutants.LATELY) <= {mutant.name for mutant in MUTANTS}
    assert sorted(mutants.seeds_from(96)) == mutants.seeds_from(0) == list(range(mutants.SEEDS))


def test_there_are_enough_mutants_of_enough_invariants():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 50
    assert len({name for mutant in MUTANTS for name in mutant.invariants}) >= 15
