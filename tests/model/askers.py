"""What askers know: what they were told, by a store or by its model, which say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anarchon._testing_contract.bench import HandClock
from anarchon._values import (
    Held,
    Lease,
    Lost,
    Owner,
    Recorded,
    Released,
    Waiting,
    Won,
)

if TYPE_CHECKING:
    import random

    from anarchon._values import (
        RunKey,
    )
    from tests.model.steps import Step

OWNERS = tuple(Owner(token, f"instance-{token}") for token in "abc")
STRANGER = Owner("d", "an \udcff instance \0")
LATEST = 12  # runs that askers remember


class Seen(NamedTuple):
    """What somebody was told of an open run, and when that was first told."""

    attempt: int
    beat: int
    lease_ms: int
    since: float


class Askers:
    """Instances that ask one store, and remember what they were told of open runs."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.clock = HandClock()  # one of their own, which goes as the store's does
        self._seen: dict[RunKey, Seen] = {}
        self._leases: list[tuple[Owner, Lease]] = []
        self._page: list[Any] = []
        self._fence = 0

    def hear(self, step: Step, answer: Any) -> None:
        """Remember what is answered; a copy that comes late is answered to nobody."""
        if step.why == "late":
            return
        if step.what == "history" and isinstance(answer, list):
            self._page = answer
        for one in getattr(answer, "answers", ()):
            self._hear(step, one)
        for run in (*getattr(answer, "open", ()), *getattr(answer, "wrong", ())):
            self._see(run.key, run.attempt, run.beat, run.lease_ms)

    def _hear(self, step: Step, answer: Any) -> None:
        if isinstance(answer, Won):
            self._fence = answer.fence
            self._leases.append((step.options["owner"], Lease(answer.key, answer.attempt)))
            self._see(answer.key, answer.attempt, 0, answer.left_ms)
        elif isinstance(answer, Held):
            self._see(answer.key, answer.run.attempt, answer.run.beat, answer.run.lease_ms)
        elif isinstance(answer, Waiting):
            self._see(answer.key, answer.attempt, 0, 0)
        elif isinstance(answer, (Recorded, Released, Lost)) and self.dice.random() < 0.8:
            # Mostly; some ask on for what they haven't got any more.
            self._leases = [one for one in self._leases if one[1] != answer.lease]

    def _see(self, key: RunKey, attempt: int, beat: int, lease_ms: int) -> None:
        known = self._seen.pop(key, None)
        since = self.clock.mono()
        if known and (known.attempt, known.beat) == (attempt, beat):
            since = known.since
        self._seen[key] = Seen(attempt, beat, lease_ms, since)
        if len(self._seen) > LATEST:
            del self._seen[next(iter(self._seen))]

    def _owner(self) -> Owner:
        return STRANGER if self.dice.random() < 0.03 else self.dice.choice(OWNERS)

    def _some_leases(self, count: int) -> list[tuple[Owner, Lease]]:
        last = self._leases[-LATEST:]
        return self.dice.sample(last, min(count, len(last)))
