"""What is told to the scheduler thread of jobs that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._messages import JobSpec

MOST_CHANGES = 100
"""So many jobs are taken in at once: a stop waits for no more."""


class Add(NamedTuple):
    """Schedule a job, in place of one of the same name."""

    spec: JobSpec

    @property
    def name(self) -> str:
        """The job's name."""
        return self.spec.name


class Remove(NamedTuple):
    """Stop scheduling and watching a job."""

    name: str


class Changes(NamedTuple):
    """Jobs have come or gone; the loop's backlog has them."""
