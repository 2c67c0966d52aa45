"""ClaimOnly: one winner and a history, and a dead run that blocks nothing for ever."""

from __future__ import annotations

import pytest

from anarchon._testing_contract.bench import Bench, HandClock
from anarchon._values import Closed, Held, Lost, Recorded, Won
from anarchon.backends.base import ClaimBackend, LeaseBackend
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import ConfigurationError
from anarchon.testing import ClaimOnly


@pytest.fixture(params=[True, False], ids=["steady", "stepping"])
def bench(request):
    store = MemoryBackend()
    store._time = clock = HandClock()
    store._steady = request.param
    return Bench(ClaimOnly(store, lost_after="10m"), clock, 30_000)


def test_it_has_no_leases():
    backend = ClaimOnly(MemoryBackend())
    assert isinstance(backend, ClaimBackend)
    assert not isinstance(backend, LeaseBackend)
    assert not hasattr(backend, "renew")
    assert repr(backend) == "<ClaimOnly around <MemoryBackend namespace='anarchon'>>"


def test_a_run_needs_no_renewal(bench):
    bench.claim(-10)
    bench.pass_leases(19)
    answer = bench.claim(0, by="b")
    assert isinstance(answer, Closed)
    assert answer.detail == "overlap"
    assert [run.status for run in bench.history()] == ["skipped", "running"]
    assert isinstance(bench.finish(-10), Recorded)


def test_a_dead_run_reads_lost_and_the_next_slot_goes_on(bench):
    bench.claim(-10)
    bench.pass_leases(20.5)
    assert [run.status for run in bench.history()] == ["lost"]
    claims = bench.claims(bench.wish(0), by="b")
    assert isinstance(claims.answers[0], Won)
    (run,) = claims.closed
    assert (run.slot, run.status) == (bench.key(-10).slot_ms, "lost")
    assert [run.status for run in bench.history()] == ["running", "lost"]
    assert isinstance(bench.finish(-10), Lost)


def test_several_dead_runs_are_cleared_away_at_once(bench):
    for slot in (-30, -20, -10):
        bench.claim(slot, skip_overlap=False)
    bench.pass_leases(20.5)
    wishes = (bench.wish(0), bench.wish(0, job="other"))
    claims = bench.claims(*wishes, by="b", wins=1)
    assert sum(isinstance(answer, Won) for answer in claims.answers) == 1
    assert [run.slot for run in claims.closed] == [bench.key(s).slot_ms for s in (-30, -20, -10)]


def test_nobody_takes_over_or_watches(bench):
    bench.claim(0)
    bench.pass_leases(5)
    assert isinstance(bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms), Held)
    assert bench.claims(bench.wish(1), by="b").open == ()
    bench.pass_leases(20)
    answer = bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms)
    assert isinstance(answer, Closed)
    assert answer.status == "lost"


def test_an_interrupted_run_is_just_recorded_so(bench):
    bench.claim(0)
    assert isinstance(bench.finish(0, status="interrupted"), Recorded)
    answer = bench.claim(0, by="b")
    assert isinstance(answer, Closed)
    assert answer.status == "interrupted"


def test_a_manual_run_reads_lost_only_after_the_same_time(bench):
    bench.manual("token")
    bench.pass_leases(19)
    assert [run.status for run in bench.history()] == ["running"]
    bench.pass_leases(2)
    assert [run.status for run in bench.history()] == ["lost"]


@pytest.mark.parametrize("lost_after", [0, 0.5, -1, "soon", True, None])
def test_what_lost_after_can_not_be(lost_after):
    with pytest.raises(ConfigurationError, match="lost_after"):
        ClaimOnly(MemoryBackend(), lost_after=lost_after)
