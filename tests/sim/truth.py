"""What is true of a run, and what of that a replica has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anarchon._values import Lease, RunKey, Terms


class RunTruth:
    """One run, as the store's answers make it out."""

    __slots__ = (
        "attempt",
        "cancelled",
        "extended",
        "free",
        "key",
        "known",
        "opened",
        "owner",
        "state",
        "status",
        "terms",
        "until",
        "won_at",
    )

    def __init__(self, key: RunKey, terms: Terms | None) -> None:
        self.key = key
        self.terms = terms
        self.state = "new"
        self.attempt = 0
        self.owner = ""
        self.extended = 0.0  # true time of the last extension, or of the release
        self.until = 0.0  # lease end by the store's clock
        self.free = 0  # attempts that were handed over, which cost nothing
        self.status = ""
        self.cancelled = False
        self.won_at = 0.0
        self.opened = 0.0  # true time of the first win
        self.known: dict[str, float] = {}  # since when an instance should know of it

    @property
    def holding(self) -> tuple[str, int, str, str, float]:
        """What a renewal, or anything more, changes."""
        return self.state, self.attempt, self.owner, self.status, self.extended

    def copy(self) -> RunTruth:
        """Return what is known now."""
        kept = RunTruth(self.key, self.terms)
        for name in RunTruth.__slots__:
            setattr(kept, name, getattr(self, name))
        kept.known = {}
        return kept


class Kept(NamedTuple):
    """What a replica has: the runs, who won them, and each job's fence."""

    runs: dict[RunKey, RunTruth]
    winners: dict[Lease, str]
    fences: dict[str, int]
