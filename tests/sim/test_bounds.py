"""The bounds of claim timing on five seeds.

The bounds are literal; what is shorter than in the long form, `python -m tests.sim --bounds`,
is the number of ticks, and of those before the count begins. A share of the wins needs many,
so the fairness of 50 and 200 instances is left to the long form, and they are checked here for
calls and lateness; a thousand jobs and the loads run on one seed, on 50 instances not at all.
The loads are of longer runs, and so of fewer.
"""

import pytest

from tests.sim import bounds

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_job_and_three_instances(seed):
    bounds.one_job(seed, 3, ticks=600)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_job_and_ten_instances(seed):
    bounds.one_job(seed, 10, ticks=900)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_job_and_large_fleets(seed):
    bounds.one_job(seed, 50, ticks=20, warm=20, fair=False)
    bounds.one_job(seed, 200, ticks=5, warm=10, fair=False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n", "ticks"), [(3, 30), (10, 40), (50, 5)])
def test_ten_jobs(seed, n, ticks):
    bounds.ten_jobs(seed, n, ticks, warm=12)


@pytest.mark.parametrize("n", [3, 10])
def test_a_thousand_jobs(n):
    bounds.thousand_jobs(0, n, ticks=1, warm=0)


@pytest.mark.parametrize("load", [0.5, 0.9, 1.25, 2.0])
def test_a_fleet_that_is_full_claims_no_more(load):
    bounds.loaded(0, load, ticks=2, warm=1, seconds=1.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("faster", [True, False], ids=["faster", "five-minutes-ahead"])
def test_one_host_differs(seed, faster):
    bounds.one_differs(seed, ticks=300, faster=faster)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [2, 5])
def test_hand_over_and_takeover(seed, n):
    bounds.handed_over(seed, n, times=20)
    bounds.crashed(seed, n, times=20)
    bounds.crashed(seed, n - 1, times=20, restarts=True)


@pytest.mark.parametrize("control", [None, 2.0, 30.0])
def test_an_idle_fleet_runs_what_it_is_asked_for(control):
    for seed in range(5):
        bounds.asked_for(seed, 3, control=control)
