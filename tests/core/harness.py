"""One core against a store that answers what the test says, told like a story.

Time is counted in seconds from `T0`, slots as well: slot 10 of a job is ten seconds after
the story begins. `Story.go` moves through every wake-up that the core asks for, and checks
that it asked for all of them: at the instant reached nothing more may have become due.

Branch coverage from this folder alone (100 % of `_core.py` and `_states.py` at least):

    python -m coverage run --branch --source=anarchon -m pytest tests/core -q -p no:cacheprovider
    python -m coverage report -m --include='anarchon/_core*.py,anarchon/_states.py'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anarchon._messages import (
    Claim,
    Look,
    Renew,
)
from anarchon._values import Lease
from tests.core.stage import MONO0, Stage
from tests.core.words import T0, aged, held, job, key, lease, ordered, won

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        Action,
        JobSpec,
    )
    from anarchon._values import (
        Answer,
        OpenRun,
        RunKey,
        Wish,
    )


class Story(Stage):
    """What happens in many tests, in a line each."""

    # what many stories begin with

    def win(self, name: str = "sync", slot: float = 10, left: float = 30) -> Lease:
        """Win a slot and start its handler."""
        self.go(slot)
        call = self.until(Claim)
        assert [wish.key for wish in call.wishes] == [key(name, slot)]
        self.claimed(won(left))
        run = lease(name, slot)
        assert self.started()[-1] == run
        return run

    def back_up(self, name: str = "sync", slot: float = 10, **how: object) -> None:
        """Lose a slot to another instance."""
        self.go(slot)
        call = self.until(Claim)
        assert [wish.key for wish in call.wishes] == [key(name, slot)]
        self.claimed(held(**how))

    def see_fleet(self, size: int) -> None:
        """Let the core see so many instances, this one included."""
        for number in range(size - 1):
            self.core._race.answers.fleet.note(f"instance {number}", self.mono)

    def fail_renewals_until(self, t: float) -> None:
        """Let time pass while no renewal is answered."""
        while self.keeper is not None or self.wakeup() <= t:
            if isinstance(self.keeper, Renew):
                self.fail(Renew)
            elif isinstance(self.keeper, Look):
                self.looked(others=1)
            else:
                self.mono = MONO0 + self.wakeup()
                self.tick()
        self.go(t)

    def until_looked(self, *wrong: OpenRun, **how: object) -> None:
        """Let time pass until a look, answering renewals, and answer it."""
        self.renewing_until(Look)
        self.looked(*wrong, **how)

    def renewing_until(self, kind: object) -> object:
        """As `until`, with every renewal answered."""
        while True:
            call = self.until(Renew | kind)
            if not isinstance(call, Renew):
                return call
            self.renewed()

    def outage(self, kind: object) -> None:
        """Fail such a call until the store counts as down; its next one is in flight then."""
        for _ in range(2):
            self.until(kind)
            self.fail(kind)
        self.until(kind)

    def claimed_by_job(self, **answers: Callable[[Wish], Answer]) -> list[Action]:
        """Answer the claim in flight, whatever its order."""
        call = getattr(self, self._slot(Claim))
        return self.claimed(*(answers[wish.key.job] for wish in call.wishes))

    def looking_until_claim(self, *wrong: OpenRun, **how: object) -> Claim:
        """Let time pass until a claim; every look shows the same leases as they are now."""
        now = self.t
        while isinstance(call := self.until(Look | Claim), Look):
            self.looked(*(aged(run, self.t - now) for run in wrong), **how)
        return call

    def until_keeper(self, kind: object) -> object:
        """Let time pass until the keeper's call is of this kind, whatever the lane does."""
        while not isinstance(self.keeper, kind):
            assert self.keeper is None, f"waiting for {kind}, and nobody answers {self.keeper}"
            self.mono = MONO0 + self.wakeup()
            self.tick()
        return self.keeper

    def win_all(self, *names: str, slot: float = 10, left: float = 30) -> list[Lease]:
        """Win the same slot of several jobs in one claim."""
        self.go(slot)
        self.until(Claim)
        self.claimed(won(left))
        return [lease(name, slot) for name in names]

    def renewing_until_t(self, t: float) -> None:
        """As `go`, with every renewal answered, and every look: nothing is wrong."""
        while (at := self.wakeup()) <= t or self.keeper is not None:
            if isinstance(self.keeper, Renew):
                self.renewed()
            elif isinstance(self.keeper, Look):
                self.looked(others=1)
            else:
                self.mono = MONO0 + at
                self.tick()
        self.go(t)

    def until_keeper_or(self, t: float) -> None:
        """Let time pass until the keeper has a call, at most until `t`."""
        while self.keeper is None and (at := self.wakeup()) <= t:
            self.mono = MONO0 + at
            self.tick()

    def unstarted_win(self) -> None:
        """Win what is claimed, for want of a thread in vain, and hand it over."""
        self.claimed(won())
        self.unstarted(self.started()[-1])
        self.settled()


def asked_for(*runs: RunKey, jobs: tuple[JobSpec, ...] = (), **how: Any) -> Story:
    """Let one instance with a job that is seldom due hear of what the fleet is asked for."""
    story = Story(*(jobs or [job(every=600)]), start=False, **how)
    story.tick()
    story.open_runs(*(ordered(run) for run in runs))
    return story


def begun(run: RunKey, **how: Any) -> tuple[Story, Lease]:
    """Let an instance win such a run and start its handler."""
    story = asked_for(run, **how)
    story.until(Claim)
    story.claimed(won())
    assert story.started() == [Lease(run, 1)]
    return story, Lease(run, 1)


def wish_of(story: Story, within: float = 120) -> Wish:
    """Let time pass until a claim of a single run."""
    (wish,) = story.until(Claim, within).wishes
    return wish


def claimed_slots(story: Story) -> list[tuple[str, float, str]]:
    """Return job, slot and reason of what the last claim named."""
    (call,) = story.all(Claim)[-1:]
    return [(w.key.job, (w.key.slot_ms - T0) / 1000, w.reason) for w in call.wishes]
