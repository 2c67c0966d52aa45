"""Counts the steps of a call, and measures its CPU time, without a hook in the package.

A step is a call of croniter, a wall time that a walk proposes, a month or a year that a walk
looks at in vain, or a date that dateutil yields.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import croniter
import dateutil.rrule

from anarchon import _schedules_rrule_walk, _schedules_walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_STEPS = 400
MOST_CPU_MS = 20.0


class Meter:
    """The steps of the calls since `reset`."""

    def __init__(self) -> None:
        self.steps = 0

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            return function(*args, **kwargs)

        return counted

    def _search(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            # The month that has the day was not looked at in vain.
            self.steps -= found is not None
            return found

        return counted

    def _yielding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Iterator[Any]:
            for value in function(*args, **kwargs):
                self.steps += 1
                yield value

        return counted

    @contextmanager
    def running(self) -> Iterator[Meter]:
        """Count everywhere in the process."""
        leg, walk = _schedules_walk._RuleLeg, _schedules_rrule_walk
        hooks = [
            (croniter.croniter, "_get_next", self._counted),
            (_schedules_walk.CronWalk, "after", self._counted),
            (_schedules_walk.CronWalk, "before", self._counted),
            (leg, "_days", self._counted),
            (leg, "_day_from", self._search),
            (leg, "_day_until", self._search),
            (walk.RecurrenceWalk, "_least_after", self._counted),
            (walk.RecurrenceWalk, "_greatest_before", self._counted),
            *((kind, "days", self._counted) for kind in (walk._Plain, walk._Hourly, walk._Picked)),
            (dateutil.rrule.rrule, "_iter", self._yielding),
        ]
        with ExitStack() as stack:
            for owner, name, kind in hooks:
                stack.enter_context(mock.patch.object(owner, name, kind(getattr(owner, name))))
            yield self

    def ask(
        self, question: Callable[[int], int | None], t_ms: int
    ) -> tuple[int | None, int, float]:
        """Return the answer, the steps, and the milliseconds of CPU time: the best of three."""
        self.steps = 0
        answer, cpu_ms = timed(question, t_ms)
        steps = self.steps
        for _ in range(2):
            if cpu_ms > MOST_CPU_MS / 4:
                cpu_ms = min(cpu_ms, timed(question, t_ms)[1])
        return answer, steps, cpu_ms


def timed(question: Callable[[int], int | None], t_ms: int) -> tuple[int | None, float]:
    begun = time.thread_time()
    answer = question(t_ms)
    return answer, (time.thread_time() - begun) * 1000
