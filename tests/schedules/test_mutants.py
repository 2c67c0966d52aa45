"""Each planted fault makes the package differ from the oracle."""

from __future__ import annotations

import pytest

from anarchon import schedules
from tests.schedules.mutants import MUTANTS, planted
from tests.schedules.sweep import first_difference


def test_without_a_fault_there_is_no_difference(swept):
    assert first_difference(swept.answers, schedules) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.rule}: {m.name}")
def test_a_fault_is_noticed(swept, mutant):
    with planted(mutant) as faulty:
        assert faulty is not schedules
        assert first_difference(swept.answers, faulty) is not None
