"""What history shows, and what is removed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Closed, Lost, Recorded, Won
from .bench import Contract, same
from .needs import needs

if TYPE_CHECKING:
    from .._runs import Run
    from .bench import Bench

DAY = 24 * 3600


class Histories(Contract):
    """History is per attempt, newest first."""

    def test_an_unknown_job_has_none(self, bench: Bench) -> None:
        """It is no error."""
        assert bench.history("nobody") == []
        assert bench.history("\ud800") == []
        assert bench.history(None) == []

    def test_the_newest_slot_comes_first(self, bench: Bench) -> None:
        """Of one job or of all."""
        for slot, job in ((-3, "a"), (-2, "b"), (-1, "a")):
            bench.run_through(slot, job=job)
        assert [run.job for run in bench.history(None)] == ["a", "b", "a"]
        assert [row[0] for row in bench.told("a")] == [-1, -3]

    def test_a_manual_run_stands_at_its_time(self, bench: Bench) -> None:
        """Between the slots."""
        bench.run_through(-3)
        bench.manual("token-1", -2)
        bench.run_through(-1)
        assert [run.manual for run in bench.history()] == [False, True, False]

    @pytest.mark.parametrize("job", ["j", None])
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_pages_follow_each_other_without_a_gap(
        self, bench: Bench, job: str | None, size: int
    ) -> None:
        """Whatever lies at the edge of a page: slots of several jobs, manual runs."""
        for name in ("i", "j", "k"):
            bench.run_through(0, job=name)
            bench.finish(0, key=bench.key(0, name)._replace(manual=f"token-{name}"))
        bench.run_through(1 / 1000, job="j")
        whole = bench.history(job)
        assert len(whole) == (3 if job else 7)
        pages: list[Run] = []
        while page := bench.history(job, limit=size, before=pages[-1] if pages else None):
            assert len(page) <= size
            pages += page
        assert pages == whole

    def test_a_page_may_follow_a_run_of_another_job(self, bench: Bench) -> None:
        """Its place in the history of all decides, whichever jobs are asked for."""
        for name in ("i", "j", "k"):
            bench.run_through(0, job=name)
            bench.finish(0, key=bench.key(0, name)._replace(manual=f"token-{name}"))
            bench.run_through(1 / 1000, job=name)
        whole = bench.history(None)
        for place, run in enumerate(whole, 1):
            for name in ("i", "j", "k", "l"):
                rest = [other for other in whole[place:] if other.job == name]
                assert bench.history(name, before=run) == rest

    def test_a_limit_of_nothing_is_nothing(self, bench: Bench) -> None:
        """No error, and not everything."""
        bench.run_through(0)
        assert bench.history(limit=0) == []
        assert bench.history(limit=-1) == []

    def test_it_can_be_asked_for_one_status(self, bench: Bench) -> None:
        """The limit counts what is shown."""
        for slot in range(-6, 0):
            bench.claim(slot)
            bench.finish(slot, status="failed" if slot % 3 else "success")
        bench.claim(0)
        failed = bench.history(status="failed", limit=3)
        assert [run.slot for run in failed] == [bench.key(slot).slot_ms for slot in (-1, -2, -4)]
        assert [run.slot for run in bench.history(status="running")] == [bench.key(0).slot_ms]
        assert bench.history(status="lost") == []

    def test_a_dead_run_that_nobody_may_follow_reads_lost(self, bench: Bench) -> None:
        """Before anybody has closed it, and under that status only."""
        bench.claim(0, budget=0)
        assert [run.status for run in bench.history()] == ["running"]
        bench.pass_leases(1.1)
        assert [run.status for run in bench.history()] == ["lost"]
        assert [run.status for run in bench.history(status="lost")] == ["lost"]
        assert bench.history(status="running") == []

    @needs(clock_can_be_set=True)  # it asks a moment before the end
    def test_one_that_was_not_renewed_lately_reads_running(self, bench: Bench) -> None:
        """As long as its lease lasts."""
        bench.claim(0, budget=0)
        bench.pass_leases(0.95)
        assert [run.status for run in bench.history()] == ["running"]

    def test_namespaces_and_jobs_do_not_mix(self, bench: Bench) -> None:
        """A job's history is its own."""
        bench.run_through(0, job="one")
        assert bench.history("on") == []
        assert bench.history("one ") == []


class Trims(Contract):
    """History is bounded, and what is removed from it can't run again."""

    def ran(self, bench: Bench, slots: range) -> None:
        """Claim and finish slots, in milliseconds from the start."""
        for slot in slots:
            bench.run_through(slot / 1000)

    def test_a_hundred_records_of_a_job_are_kept(self, bench: Bench) -> None:
        """The newest ones; another job keeps its own."""
        bench.run_through(0, job="other")
        self.ran(bench, range(-130, 0))
        slots = [round(row[0] * 1000) for row in bench.told()]
        assert slots == list(range(-1, -101, -1))
        assert len(bench.history("other")) == 1

    def test_skips_are_counted_apart(self, bench: Bench) -> None:
        """Twenty of them, which push no attempt out of history."""
        self.ran(bench, range(-200, -190))
        bench.backend.pause("job", duration_ms=None)
        for slot in range(-190, -60):
            bench.claim(slot / 1000)
        statuses = [row[2] for row in bench.told()]
        assert statuses == ["skipped"] * 20 + ["success"] * 10

    def test_a_skip_that_is_trimmed_at_once_is_told_to_its_writer(self, bench: Bench) -> None:
        """Its event depends on it."""
        bench.backend.pause("job", duration_ms=None)
        for slot in range(-60, 0, 2):
            bench.claim(slot / 1000)
        assert bench.told()[-1][0] == -0.040
        answer = bench.claim(-0.041, by="b")
        assert isinstance(answer, Closed)
        assert answer.run is not None
        assert (answer.run.detail, answer.run.instance_id) == ("newer slot", "instance-b")
        assert len(bench.history()) == 20

    def test_missed_slots_count_as_records(self, bench: Bench) -> None:
        """They are news, and bounded as well."""
        for slot in range(-300, -150):
            bench.skip(slot / 1000, -0.1)
        assert len(bench.history()) == 100

    @needs(clock_can_be_set=True)
    def test_records_are_kept_for_thirty_days(self, bench: Bench) -> None:
        """But never fewer than the newest ten of a job."""
        self.ran(bench, range(-30, 0))
        bench.clock.advance(29 * DAY * 1000)
        bench.run_through(29 * DAY)
        assert len(bench.history()) == 31
        bench.clock.advance(2 * DAY * 1000)
        bench.run_through(31 * DAY)
        assert len(bench.history()) == 10
        bench.clock.advance(60 * DAY * 1000)
        bench.run_through(91 * DAY)
        assert len(bench.history()) == 10

    def test_what_was_trimmed_can_not_run_again(self, bench: Bench) -> None:
        """Nor be finished or recorded as missed: the floor says that it was decided."""
        self.ran(bench, range(-130, 0))
        for slot in (-0.130, -0.101):  # the oldest and the newest that were removed
            for wants in (1, 2):
                answer = bench.claim(slot, by="b", wants=wants)
                assert same(answer, Closed(bench.key(slot), "skipped", "trimmed", ""))
        assert isinstance(bench.finish(-0.120), Lost)
        assert isinstance(bench.skip(-0.110, -0.1), Closed)
        assert len(bench.history()) == 100

    def test_a_slot_above_the_floor_is_judged_by_its_record(self, bench: Bench) -> None:
        """The floor is what was removed, not what is old."""
        self.ran(bench, range(-130, 0))
        answer = bench.claim(-0.1, by="b")
        assert isinstance(answer, Closed)
        assert answer.status == "success"
        assert isinstance(bench.claim(0.001, by="b"), Won)

    def test_an_open_run_is_never_trimmed(self, bench: Bench) -> None:
        """The floor passes it by, and it finishes all the same."""
        bench.claim(-1, skip_overlap=False)
        for slot in range(-130, 0):
            bench.run_through(slot / 1000, skip_overlap=False)
        assert bench.told()[-1] == (-1, 1, "running", None)
        assert isinstance(bench.claim(-1), Won)
        assert isinstance(bench.finish(-1), Recorded)
        bench.run_through(0)
        assert isinstance(bench.finish(-1), Lost)
        assert len(bench.history()) == 100

    def test_a_slot_after_store_time_is_not_trimmed(self, bench: Bench) -> None:
        """Else one host's wrong clock would raise the floor into the future."""
        pace = bench.pace()._replace(tolerance_ms=10_000)
        for slot in range(9_000, 9_130):
            bench.run_through(slot / 1000, pace=pace)
        assert len(bench.history()) == 130
        assert isinstance(bench.claim(0, by="b"), Won)

    def test_manual_runs_are_counted_and_raise_no_floor(self, bench: Bench) -> None:
        """A slot that is still to be decided may lie below them."""
        for number in range(120):
            lease = bench.manual(f"token-{number:03}", -1 + number / 1000)
            bench.finish(0, key=lease.key, reason="manual")
        assert len(bench.history()) == 100
        assert bench.history()[-1].run_id == "token-020"
        assert isinstance(bench.claim(-2), Won)

    @needs(clock_can_be_set=True)
    def test_a_manual_run_whose_runner_died_is_trimmed(self, bench: Bench) -> None:
        """When it is expired and too old; one that is renewed stays."""
        bench.manual("dead", -100)
        bench.clock.advance(2 * 3600 * 1000)
        bench.manual("alive", -99)
        start = 2 * 3600 * 1000
        self.ran(bench, range(start - 130, start))
        runs = bench.history()
        assert [run.run_id for run in runs if run.manual] == ["alive"]
        assert len(runs) == 100

    def test_a_manual_run_that_just_expired_is_not(self, bench: Bench) -> None:
        """Its result may still come."""
        bench.manual("slow", -100)
        bench.pass_leases(2)
        start = 2 * bench.lease_ms
        self.ran(bench, range(start - 130, start))
        assert [run.run_id for run in bench.history() if run.manual] == ["slow"]
