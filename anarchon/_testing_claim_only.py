"""A claim-only backend made of one that has leases: one winner per slot, and a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._durations import parse_ms
from ._values import Claims, Closed, Suspect, Wish, Won
from .backends.base import ClaimBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._durations import Duration
    from ._runs import Run
    from ._values import (
        Limits,
        OpenRun,
        Owner,
        Pace,
        Presences,
        Result,
        ServerInfo,
        Settled,
        SkipWish,
        Status,
        Terms,
    )

BURIALS = 10  # how many dead runs of a job one claim may clear away


class ClaimOnly(ClaimBackend):
    """A backend without leases, around one that has them.

    Nothing is renewed, watched, handed over or taken over; an interrupted run is recorded
    so, and that is its end. Since nobody can know whether a runner lives, a run that
    wasn't finished within `lost_after` of its claim counts as lost: history shows it so,
    and the job's next claim closes it and goes on. Until then it blocks the other slots
    of a job that must not overlap; a handler that takes longer may meet the next slot.

    May be used from any thread.

    Args:
        backend: The real one; also found as `inner`.
        lost_after: How long a run may take, in seconds or as text.

    Raises:
        ConfigurationError: `lost_after` is no duration, or is shorter than a second.
    """

    def __init__(self, backend: ClaimBackend, *, lost_after: Duration = "1h") -> None:
        self.inner = backend
        self.namespace = backend.namespace
        self._age_ms = parse_ms(lost_after, what="lost_after", minimum_ms=1000)

    def __repr__(self) -> str:
        return f"<ClaimOnly around {self.inner!r}>"

    def open(self, limits: Limits) -> ServerInfo:
        """See `ClaimBackend.open`."""
        return self.inner.open(limits)

    def prepare(self, jobs: Sequence[str]) -> None:
        """See `ClaimBackend.prepare`."""
        self.inner.prepare(jobs)

    def close(self) -> None:
        """See `ClaimBackend.close`."""
        self.inner.close()

    def abandon(self) -> None:
        """See `ClaimBackend.abandon`."""
        self.inner.abandon()

    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """Decide who runs these slots; a dead run in the way is closed and the claim repeated."""
        asked = [wish._replace(terms=self._leaseless(wish.terms)) for wish in wishes]
        claims = self.inner.claim(asked, owner=owner, wins=wins, pace=pace)
        answers, closed, store_ms = list(claims.answers), list(claims.closed), claims.store_ms
        for _ in range(BURIALS):
            behind = [n for n, answer in enumerate(answers) if isinstance(answer, Suspect)]
            if not behind:
                break
            dead = [answer.other for answer in answers if isinstance(answer, Suspect)]
            closed += self._bury(dead, asked[0].terms, owner, pace)
            left = wins - sum(isinstance(answer, Won) for answer in answers)
            again = self.inner.claim([asked[n] for n in behind], owner=owner, wins=left, pace=pace)
            closed += again.closed
            store_ms = again.store_ms
            for n, answer in zip(behind, again.answers, strict=True):
                answers[n] = answer
        return Claims(tuple(answers), (), tuple(closed), store_ms)

    def _leaseless(self, terms: Terms) -> Terms:
        """Return terms under which a run is never followed, and holds for `lost_after`."""
        return terms._replace(
            lease_ms=self._age_ms, heartbeat_ms=max(1, self._age_ms // 3), budget=0
        )

    def _bury(self, dead: Sequence[OpenRun], terms: Terms, owner: Owner, pace: Pace) -> list[Run]:
        """Close runs whose time is over. Nobody ever renews them, so age alone is the witness."""
        long_ago = pace.sent - 2 * self._age_ms / 1000
        wishes = [
            Wish(run.key, run.attempt + 1, "takeover", terms, run.beat, long_ago) for run in dead
        ]
        claims = self.inner.claim(wishes, owner=owner, wins=0, pace=pace)
        answers = [answer for answer in claims.answers if isinstance(answer, Closed)]
        return [answer.run for answer in answers if answer.run is not None]

    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """See `ClaimBackend.finish`."""
        return self.inner.finish(results, owner=owner)

    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """See `ClaimBackend.record_manual`; the lease is `lost_after` here as well."""
        return self.inner.record_manual(results, owner=owner, lease_ms=max(lease_ms, self._age_ms))

    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """See `ClaimBackend.skip`."""
        return self.inner.skip(wishes, owner=owner, pace=pace)._replace(open=())

    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """See `ClaimBackend.history`."""
        return self.inner.history(job, limit=limit, before=before, status=status)

    def present(self, owner: Owner) -> None:
        """See `ClaimBackend.present`."""
        self.inner.present(owner)

    def instances(self) -> Presences:
        """See `ClaimBackend.instances`."""
        return self.inner.instances()

    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """See `ClaimBackend.pause`."""
        self.inner.pause(job, duration_ms=duration_ms)

    def resume(self, job: str | None) -> None:
        """See `ClaimBackend.resume`."""
        self.inner.resume(job)
