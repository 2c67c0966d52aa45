"""Replaces the doors of croniter and dateutil by ones that let no time zone in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import croniter
import dateutil.rrule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOORS = [
    *((croniter.croniter, name) for name in ("__init__", "get_next", "get_prev", "_get_next")),
    *((croniter.croniter, name) for name in ("set_current", "all_next", "all_prev", "match")),
    *((dateutil.rrule.rrule, name) for name in ("__init__", "after", "before", "between")),
    *((dateutil.rrule.rrule, name) for name in ("replace", "xafter")),
    *((dateutil.rrule.rruleset, name) for name in ("rdate", "exdate", "after", "before")),
]


class Aware(AssertionError):
    """A time zone came to a library that can't deal with it."""


def _refuse(value: object) -> None:
    if isinstance(value, tzinfo) or (isinstance(value, datetime) and value.tzinfo is not None):
        raise Aware(f"{value!r} came to the library")
    if isinstance(value, str) and ("TZID" in value or "DTSTART" in value):
        raise Aware(f"{value!r} came to the library, which would read the zone")


def _guarded(door: Callable[..., Any], count: Callable[[], None]) -> Callable[..., Any]:
    @wraps(door)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        count()
        for value in (*args, *kwargs.values()):
            _refuse(value)
        return door(*args, **kwargs)

    return guarded


@contextmanager
def nothing_aware() -> Iterator[Callable[[], int]]:
    """Refuse all zones; gives a function that tells how many calls came by."""
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    with ExitStack() as stack:
        for owner, name in DOORS:
            guard = _guarded(getattr(owner, name), count)
            stack.enter_context(mock.patch.object(owner, name, guard))
        yield lambda: calls
