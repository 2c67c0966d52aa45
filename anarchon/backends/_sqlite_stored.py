"""What comes out of a SQLite file, read with care: anybody may have written there.

A value that can't be meant harms nothing but what it belongs to. Of a job, or a pause,
it counts as never stored, as after a flush, and the next write puts a sound one in its
place. A run that can't be read is decided, and only that slot. Of a line of history
what can be shown is shown.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, get_args

from .._values import Present, Reason, RunKey, Status
from ._rules import FENCE_LIMIT, FOREVER, NO_FLOOR, AttemptRow, JobState, RunState
from ._storable import FIRST_MS, LARGEST, LAST_MS, is_storable

Row = tuple[Any, ...]

_STATES = frozenset(("running", "waiting", "closed"))
_STATUSES = frozenset(get_args(Status))
_REASONS = frozenset(get_args(Reason))
_MOST = 2 * LARGEST  # the sum of a time and the longest lease

# Of a row of runs: what is a whole number, what is text.
_NUMBERS = itemgetter(1, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 20)
_TEXTS = itemgetter(0, 2, 5, 8, 19)


def run_of(row: Row) -> RunState | None:
    """Return a row as a run, or None when something else than anarchon wrote it."""
    numbers = _NUMBERS(row)
    if row[3] not in _STATES or {*map(type, numbers)} != {int}:
        return None
    if {*map(type, _TEXTS(row))} != {str} or not -_MOST <= min(numbers) <= max(numbers) <= _MOST:
        return None
    run = RunState(RunKey(*row[:3]), *row[3:])
    known = run.status is None or run.status in _STATUSES
    least = 0 if run.state != "running" and run.key.is_ordered else 1
    counted = run.attempt >= least and run.lease_ms >= 0 and run.heartbeat_ms >= 0
    return run if known and counted and _is_text(run.detail) and is_storable(run.key) else None


def job_of(row: Row) -> JobState:
    """Return a row as a job; what can't be meant in it counts as never stored."""
    fence, floor_ms, paused_until_ms, records, skips = row
    return JobState(
        _number(fence, 0, FENCE_LIMIT - 1, 0),
        _number(floor_ms, NO_FLOOR, LAST_MS, NO_FLOOR),
        pause_of(paused_until_ms),
        _number(records, 0, LARGEST, 0),
        _number(skips, 0, LARGEST, 0),
    )


def pause_of(until_ms: object) -> int:
    """Return until when a pause lasts; what can't be meant is no pause."""
    paused_ms: int = _number(until_ms, 0, FOREVER, 0)
    return paused_ms


def line_of(row: Row) -> AttemptRow | None:
    """Return a row as a line of history, without what can't be shown; None: nothing can."""
    job, slot_ms, manual, attempt, status, detail, reason, instance, *times = row
    numbers, texts = times[:3], times[3:]
    if {type(job), type(manual)} != {str} or {type(slot_ms), type(attempt)} != {int}:
        return None
    key = RunKey(job, slot_ms, manual)
    if not (is_storable(key) and 0 < attempt <= LARGEST):
        return None
    if status not in _STATUSES or reason not in _REASONS:
        return None
    return AttemptRow(
        key,
        attempt,
        status,
        _shown(detail),
        reason,
        _shown(instance),
        *(_number(value, FIRST_MS, LAST_MS, None) for value in numbers),
        *map(_shown, texts),
    )


def present_of(row: Row) -> Present | None:
    """Return a row as an instance; None when something else than anarchon wrote it."""
    sound = [*map(type, row)] == [str, int, int, str, str]
    return Present(*row) if sound and max(map(abs, row[1:3])) <= _MOST else None


def checkpoint_of(value: object) -> str | None:
    """Return a checkpoint; what is no text is none."""
    return value if isinstance(value, str) else None


def _number(value: object, least: int, most: int, otherwise: Any) -> Any:
    return value if type(value) is int and least <= value <= most else otherwise


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _shown(value: object) -> str | None:
    return value if isinstance(value, str) else None
