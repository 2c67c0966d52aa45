"""pytest: fixtures for tests of jobs.

::

    # conftest.py
    pytest_plugins = ["anarchon.contrib.pytest"]

Nothing loads it by itself: a service that has pytest installed doesn't import it, and tests that
measure coverage import no more of the service than they asked for.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from .. import testing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._testing_context import Moment
    from ..scheduler import Scheduler

__all__ = ["ManualTime", "manual_clock", "manual_time"]


class ManualTime(Protocol):
    """What the fixture `manual_time` is."""

    def __call__(
        self,
        scheduler: Scheduler,
        *,
        start: Moment | None = None,
        only: str | Iterable[str] | None = None,
        catch_up: bool = False,
    ) -> testing.ManualClock:
        """Start a scheduler in manual time, until the test ends, and return its clock."""
        ...


@pytest.fixture
def manual_clock() -> testing.ManualClock:
    """A `ManualClock` for schedulers that the test makes itself; attach them to it."""
    return testing.ManualClock()


@pytest.fixture
def manual_time() -> Iterator[ManualTime]:
    """`anarchon.testing.manual_time` as a function; what it began ends with the test."""
    with ExitStack() as stack:

        def begin(scheduler: Scheduler, **how: Any) -> testing.ManualClock:
            return stack.enter_context(testing.manual_time(scheduler, **how))

        yield begin
