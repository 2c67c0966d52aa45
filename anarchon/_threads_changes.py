"""What is told to the scheduler thread of jobs that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._messages import Later
from ._named import NamedTuple

if TYPE_CHECKING:
    from ._core import Core
    from ._messages import JobSpec, Now

MOST_CHANGES = 100
"""So many jobs are taken in at once: a stop waits for no more."""


class Add(NamedTuple):
    """Schedule a job, in place of one of the same name."""

    spec: JobSpec


class Remove(NamedTuple):
    """Stop scheduling and watching a job."""

    name: str


class Changes(NamedTuple):
    """Jobs have come or gone; the loop's backlog has them."""


def apply(core: Core, change: Add | Remove | Later, now: Now) -> None:
    """Have the core take a change in."""
    match change:
        case Add(spec=spec):
            core.add(spec, now)
        case Remove(name=name):
            core.remove(name)
        case Later():
            core.schedule_answered(change, now)
