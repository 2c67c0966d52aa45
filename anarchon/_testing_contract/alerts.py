"""Who tells that nobody has finished a slot: one instance, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .bench import ANY_JOB, Contract

if TYPE_CHECKING:
    from .bench import Bench


class Alarms(Contract):
    """The alert is itself a claim."""

    def tells(self, bench: Bench, slot: float = 0, *, by: str = "a", job: str = ANY_JOB) -> bool:
        """Ask whether somebody is to tell of a slot."""
        alerts = bench.any.alert([bench.key(slot, job)], owner=bench.owner(by))
        (answer,) = alerts.answers
        assert abs(alerts.store_ms - bench.now_ms()) < 5000
        return bool(answer)

    def test_one_tells_of_a_slot_that_nobody_ran(self, bench: Bench) -> None:
        """A repeat is answered so again; nothing is recorded in history."""
        assert self.tells(bench)
        assert self.tells(bench)
        assert not self.tells(bench, by="b")
        assert bench.history() == []
        assert bench.claim(0) == bench.claim(0)

    def test_each_job_and_each_later_slot_has_its_own(self, bench: Bench) -> None:
        """Who told of a newer one has told of the older ones."""
        assert self.tells(bench)
        assert self.tells(bench, by="b", job="other")
        assert self.tells(bench, 1, by="b")
        assert not self.tells(bench, by="b")
        assert not self.tells(bench, by="a")
        assert not self.tells(bench, 0.5, by="c")

    def test_several_at_once(self, bench: Bench) -> None:
        """Answered in their order; what can't be stored is told of by nobody."""
        bench.run_through(0, job="done")
        keys = [bench.key(0), bench.key(0, "done"), bench.key(0, "\ud800"), bench.key(0, "third")]
        alerts = bench.any.alert(keys, owner=bench.owner("a"))
        assert alerts.answers == (True, False, False, True)
        assert bench.any.alert([], owner=bench.owner("a")).answers == ()

    @pytest.mark.parametrize("status", ["success", "failed", "interrupted"])
    def test_nobody_tells_of_what_was_finished(self, bench: Bench, status: str) -> None:
        """Or ended by its owner: there are other events for that."""
        bench.claim(0)
        bench.finish(0, status=status)
        assert not self.tells(bench)
        assert not self.tells(bench, by="b")
        assert self.tells(bench, 1, by="b")

    @pytest.mark.parametrize("how", ["runs", "waits", "lost", "missed"])
    def test_one_tells_of_what_was_not(self, bench: Bench, how: str) -> None:
        """Whatever became of it so far."""
        if how == "missed":
            bench.skip(0, 0)
        else:
            bench.claim(0, budget=0 if how == "lost" else 3)
        if how == "waits":
            bench.release(0)
        if how == "lost":
            bench.pass_leases(1.1)
            bench.claim(0, by="b", wants=2, beat=0, unseen=bench.lease_ms)
        assert self.tells(bench, by="c")
        assert not self.tells(bench, by="d")

    def test_one_tells_of_what_an_overlap_has_skipped(self, bench: Bench) -> None:
        """Of what a pause has, nobody."""
        bench.claim(-1, by="x")
        bench.claim(0, by="y")
        assert self.tells(bench)
        bench.backend.pause("other", duration_ms=None)
        bench.claim(0, by="y", job="other")
        assert not self.tells(bench, job="other")

    def test_a_result_that_comes_later_changes_nothing(self, bench: Bench) -> None:
        """It was told of; who asks again is answered by what is true now."""
        bench.claim(0, by="x")
        assert self.tells(bench)
        bench.finish(0, by="x")
        assert not self.tells(bench)
        assert not self.tells(bench, by="b")
