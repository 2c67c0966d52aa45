"""Store calls, counted at the backend: exactly what is needed, and nothing while idle."""

import pytest

from anarchon._values import TRIGGERED, RunKey
from tests.sim.calm import PERIOD_MS, Calm
from tests.sim.fleet import settings
from tests.sim.world import EPOCH

PERIOD = PERIOD_MS / 1000
ONCE_MS = round(EPOCH * 1000)  # one slot only, due as the simulation begins
BEATS = 60


@pytest.mark.parametrize("n", [1, 2, 3, 10, 25])
def test_one_job_costs_n_claims_and_one_finish_a_tick(n):
    calm = Calm(n, n, 1, settings()).settle_in(10)
    for _ in range(20):
        calm.count_from_here()
        calm.run(PERIOD)
        assert (calm.calls("Claim"), calm.calls("Finish")) == (n, 1)
        # Whoever claimed while the handler ran is its backup until the next look.
        assert calm.calls("Look") < n
        assert set(calm.store.calls) <= {"Claim", "Finish", "Look"}


@pytest.mark.parametrize(("n", "m"), [(1, 10), (2, 7), (3, 10), (10, 10), (10, 30), (5, 50)])
def test_m_jobs_cost_at_most_2n_claims_and_m_finishes_a_tick(n, m):
    calm = Calm(m, n, m, settings(workers=m), seconds=0.05).settle_in(8)
    for _ in range(10):
        calm.count_from_here()
        calm.run(PERIOD)
        assert calm.calls("Claim") <= 2 * n
        assert calm.calls("Finish") <= m
        assert len(calm.tally.starts_at) == m


def one_long_run(n):
    calm = Calm(n, n, 1, settings(), seconds=1e6, period_ms=ONCE_MS)
    calm.run(30.0)
    calm.count_from_here()
    return calm


def test_a_live_lease_costs_one_renewal_a_heartbeat():
    calm = one_long_run(1).run(BEATS * 10.0)
    assert calm.store.calls == {"Renew": BEATS}


def test_many_live_leases_cost_one_renewal_a_heartbeat():
    calm = Calm(1, 1, 8, settings(), seconds=1e6, period_ms=ONCE_MS).run(30.0)
    calm.count_from_here()
    assert calm.run(BEATS * 10.0).store.calls == {"Renew": BEATS}


def test_a_watcher_costs_one_look_a_heartbeat():
    calm = one_long_run(2).run(BEATS * 10.0)
    # The time between two looks varies by a tenth, so that a fleet doesn't look in step.
    assert calm.calls("Look") == pytest.approx(BEATS, abs=3)
    assert calm.calls("Renew") == BEATS
    assert set(calm.store.calls) == {"Renew", "Look"}


def test_a_watcher_looks_once_more_just_after_the_lease_end():
    for seed in range(20):
        calm = Calm(seed, 2, 1, settings(), seconds=1e6, period_ms=ONCE_MS)
        calm.run(25.0 + seed)
        next(inst for inst in calm.fleet.up() if inst.handlers).crash()
        before = calm.calls("Look")
        calm.count_from_here()
        ended_at = calm.world.now
        while not calm.tally.starts_at:
            calm.run(0.01)
        waited = calm.tally.starts_at[0][0] - ended_at
        assert before > 0
        assert calm.calls("Look") <= waited / 9.0 + 2
        assert calm.calls("Claim") == 1


def test_a_full_instance_looks_once_a_heartbeat_and_claims_nothing():
    calm = Calm(1, 1, 3, settings(workers=2), seconds=1e6, period_ms=ONCE_MS).run(30.0)
    calm.count_from_here()
    calm.run(BEATS * 10.0)
    assert calm.calls("Look") == pytest.approx(BEATS, abs=3)
    assert set(calm.store.calls) == {"Renew", "Look"}


@pytest.mark.parametrize("n", [1, 4])
def test_nothing_due_nothing_running_nothing_watched_costs_nothing(n):
    calm = Calm(n, n, 3, settings(), period_ms=86_400_000).run(60.0)
    calm.count_from_here()
    assert calm.run(6 * 3600.0).store.calls == {}


def test_an_outage_costs_nothing_while_nothing_is_needed():
    calm = Calm(1, 2, 3, settings(), period_ms=86_400_000).run(60.0)
    calm.store.down = "refused"
    steps = calm.world.steps
    calm.run(3600.0)
    # A look at the wall clock each minute, and nothing else.
    assert calm.world.steps - steps <= 2 * 61


@pytest.mark.parametrize("n", [1, 4])
def test_an_idle_fleet_with_control_costs_one_look_a_period(n):
    calm = Calm(n, n, 3, settings()._replace(control=10.0), period_ms=86_400_000).run(65.0)
    calm.count_from_here()
    # A period begins with the answer, so each look is a round trip later than the one before.
    assert calm.run(600.0).store.calls == {"Look": pytest.approx(60 * n, abs=n)}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_triggered_run_costs_its_claim_its_end_and_two_questions(n):
    """None of the others hears of it; whoever asked sees whether there is another one."""
    calm = Calm(n, n, 1, settings(), period_ms=86_400_000).run(60.0)
    calm.count_from_here()
    asked = RunKey("j0", calm.store.time.wall_ms(), f"{TRIGGERED}1")
    calm.store.backend.trigger([asked], data=None)
    calm.fleet.up()[0].ordered("j0")
    calm.run(300.0)
    assert calm.store.calls == {"Unfinished": 2, "Claim": 1, "Finish": 1}
    assert len(calm.tally.starts_at) == 1
