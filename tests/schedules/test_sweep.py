"""Random cases: the package and the oracle name the same slots, at a bounded cost."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.schedules import cases
from tests.schedules.aware import nothing_aware
from tests.schedules.conftest import CASES
from tests.schedules.mutants import MUTANTS
from tests.schedules.steps import Meter
from tests.schedules.sweep import Sweep, first_difference


def test_random_cases(swept):
    assert not swept.wrong
    print(swept.figures)
    assert swept.figures.cases == CASES
    assert swept.figures.refused < CASES / 10
    assert len(swept.figures.steps) > 2 * CASES


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_cases_that_shrink(rng):
    with Meter().running() as meter:
        Sweep(meter).check(cases.draw(rng))


def test_the_zones_are_many_and_odd():
    assert len(cases.ZONES) >= 60
    kinds = set()
    for key, years in cases.ZONES.items():
        for year in years:
            zone = cases.zone_of(key)
            kinds |= {zone.offset(t) - zone.offset(t - 1) for t in cases.changes_in(key, year)}
    hours = {size / 3600 for size in kinds}
    # Half an hour, an hour and two, in both directions, and whole days; and odd seconds.
    assert hours >= {-2, -1, -0.5, 0.5, 1, 2, 24}
    assert any(size % 60 for size in kinds)


def test_random_cases_come_close_to_changes():
    near = 0
    for number in range(CASES):
        case = cases.numbered(0, number)
        zone = cases.zone_of(case.zone or "UTC")
        near += bool(zone.near(case.t_ms // 86_400_000))
    assert near > CASES / 2


def test_no_zone_comes_to_the_libraries(swept):
    with nothing_aware() as calls:
        from anarchon import schedules

        assert first_difference(swept.answers, schedules) is None
        assert calls() > CASES


def test_the_mutants_are_about_every_rule():
    assert {mutant.rule for mutant in MUTANTS} == {f"S{n}" for n in range(2, 12)}
