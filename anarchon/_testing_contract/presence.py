"""What instances say of themselves: kept in passing, shown to whoever asks, decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .._values import Presence
from ..backends.base import ClaimBackend
from .bench import Contract
from .needs import needs

if TYPE_CHECKING:
    from .._values import Owner, Present
    from .bench import Bench

DAY_MS = 24 * 3_600_000


class Presents(Contract):
    """A store shows the instances that it has heard from."""

    @pytest.fixture
    def shows(self, bench: Bench) -> Bench:
        """Have a store that shows instances."""
        if type(bench.backend).instances is ClaimBackend.instances:
            pytest.skip("this store shows no instances")
        return bench

    def speaker(
        self, bench: Bench, name: str = "a", about: str | None = '{"pid":1}', *, state: str = "{}"
    ) -> Owner:
        """Return an owner that says something of itself."""
        expected_ms = bench.now_ms() + bench.lease_ms
        return bench.owner(name)._replace(presence=Presence(expected_ms, state, about))

    def shown(self, bench: Bench) -> dict[str, Present]:
        """Return the instances that are shown, by token."""
        return {one.token: one for one in bench.backend.instances().instances}

    def test_nobody_is_there_at_first(self, shows: Bench) -> None:
        """Who says nothing of itself is not shown."""
        assert shows.backend.instances().instances == ()
        assert abs(shows.backend.instances().store_ms - shows.now_ms()) < 5000
        shows.claim(0)
        assert self.shown(shows) == {}

    def test_it_is_kept_until_it_is_taken_back(self, shows: Bench) -> None:
        """Each instance has its own."""
        one, two = self.speaker(shows), self.speaker(shows, "b", '{"pid":2}')
        for owner in (one, two):
            shows.backend.present(owner)
        found = self.shown(shows)
        assert set(found) == {"a", "b"}
        assert one.presence is not None
        assert (found["a"].expected_ms, found["a"].state, found["a"].about) == one.presence
        assert abs(found["a"].seen_ms - shows.now_ms()) < 5000
        shows.backend.present(shows.owner("a"))
        shows.backend.present(shows.owner("a"))
        assert set(self.shown(shows)) == {"b"}

    def test_what_is_left_out_stays_as_it_was_told(self, shows: Bench) -> None:
        """Of one that was never heard of it is empty."""
        shows.backend.present(self.speaker(shows))
        shows.backend.present(self.speaker(shows, about=None, state='{"n":2}'))
        kept = self.shown(shows)["a"]
        assert (kept.state, kept.about) == ('{"n":2}', '{"pid":1}')
        shows.backend.present(self.speaker(shows, "b", about=None))
        assert self.shown(shows)["b"].about == ""

    @pytest.mark.parametrize("how", ["won", "lost", "empty"])
    def test_a_claim_keeps_it_in_passing(self, shows: Bench, how: str) -> None:
        """Whatever becomes of the claim, whose answers are the same."""
        if how == "lost":
            shows.claim(0, by="x")
        if how == "empty":
            shows.run_through(0, by="x")
        plain = shows.claims(shows.wish(0, job="other"), by="y").answers
        owner = self.speaker(shows)
        claims = shows.backend.claim([shows.wish(0)], owner=owner, wins=1, pace=shows.pace())
        assert len(claims.answers) == len(plain) == 1
        assert type(claims.answers[0]).__name__ == {"won": "Won", "lost": "Held"}.get(how, "Closed")
        assert set(self.shown(shows)) == {"a"}

    def test_others_stay_as_they_are(self, shows: Bench) -> None:
        """A call speaks for its asker alone."""
        shows.backend.present(self.speaker(shows, "b", '{"pid":2}', state='{"n":1}'))
        shows.backend.claim([shows.wish(0)], owner=self.speaker(shows), wins=1, pace=shows.pace())
        kept = self.shown(shows)["b"]
        assert (kept.state, kept.about) == ('{"n":1}', '{"pid":2}')

    @needs(clock_can_be_set=True)
    def test_who_is_long_gone_is_forgotten(self, shows: Bench) -> None:
        """A day after it was expected, by the next one that says something of itself."""
        shows.backend.present(self.speaker(shows))
        shows.clock.advance(DAY_MS)
        shows.backend.present(self.speaker(shows, "b"))
        assert set(self.shown(shows)) == {"a", "b"}
        shows.clock.advance(2 * shows.lease_ms)
        shows.backend.present(self.speaker(shows, "c"))
        assert set(self.shown(shows)) == {"b", "c"}

    def test_it_can_be_long(self, shows: Bench) -> None:
        """A service may have a thousand jobs."""
        about = '{"jobs":"' + "x" * 100_000 + '"}'
        shows.backend.present(self.speaker(shows, about=about))
        assert self.shown(shows)["a"].about == about

    def test_a_namespace_has_its_own(self, shows: Bench) -> None:
        """Who asks of a store that isn't open is told as well."""
        shows.backend.present(self.speaker(shows))
        assert set(self.shown(shows)) == {"a"}
        shows.backend.close()
        found = set(self.shown(shows))
        shows.backend.open(shows.limits)
        assert found == {"a"}


class LeasePresents(Presents):
    """The same, by what only a store with leases is asked."""

    def test_a_renewal_keeps_it_in_passing(self, shows: Bench) -> None:
        """Also one of a lease that is lost."""
        shows.claim(0, by="a")
        for name, lost in (("a", ()), ("b", (shows.lease(0),))):
            owner = self.speaker(shows, name)
            renewed = shows.any.renew([shows.lease(0)], owner=owner, lease_ms=shows.lease_ms)
            assert renewed.lost == lost
        assert set(self.shown(shows)) == {"a", "b"}

    def test_the_question_for_what_is_open_keeps_it_in_passing(self, shows: Bench) -> None:
        """A look writes nothing."""
        shows.claim(0, by="x")
        looked = shows.any.look(["job"], owner=self.speaker(shows, "z"))
        assert looked.others == 1
        assert self.shown(shows) == {}
        looked = shows.any.unfinished(["job"], owner=self.speaker(shows))
        assert [run.key for run in looked.wrong] == [shows.key(0)]
        assert set(self.shown(shows)) == {"a"}
