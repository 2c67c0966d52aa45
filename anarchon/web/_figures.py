"""Figures: what became of the last runs in one strip, and their attempts in lanes of time."""

from __future__ import annotations

from itertools import groupby
from math import log1p
from statistics import median
from typing import TYPE_CHECKING

from .._named import NamedTuple
from .._runs import called_for
from .._values import milliseconds
from ._words import span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .._runs import Run

_ROUND_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(seconds * 1000 for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3_600_000 for hours in (1, 2, 3, 6, 12)),
    *(days * 86_400_000 for days in (1, 2, 5, 10, 20, 50, 100)),
)
_TICKS_MS = (10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000)
_SKEWED = 12
_NARROWEST = 0.8  # percent: what took no time is seen as well
_DECADES = 2000


class Story(NamedTuple):
    """A run with its attempts, oldest first, as far as they were read."""

    runs: tuple[Run, ...]

    @property
    def last(self) -> Run:
        """The attempt that tells what became of the run."""
        return self.runs[-1]

    @property
    def origin_ms(self) -> int:
        """Where its lane begins: when it was due, or, of a backfilled slot, when it was run."""
        begun = self.runs[0].started_at
        if begun is None or called_for(self.last) != "backfilled":
            return self.last.slot
        return milliseconds(begun)

    @property
    def late_ms(self) -> int | None:
        """How long after its slot the first attempt began, if all of them are there."""
        first = self.runs[0]
        if first.started_at is None or first.attempt > 1:
            return None
        return max(0, milliseconds(first.started_at) - first.slot)

    @property
    def takeovers(self) -> int:
        """How many attempts went on where another one had ended."""
        return sum(run.reason == "takeover" for run in self.runs)

    @property
    def words(self) -> str:
        """All of it, in one line."""
        if len(self.runs) == 1 and self.last.started_at is None:
            return _ended(self.last)
        late = "" if self.late_ms is None else f"started {span(self.late_ms)} after its slot"
        tries = [f"attempt {run.attempt} {_ended(run)}" for run in self.runs]
        return "; ".join(filter(None, [late, *tries]))


def _ended(run: Run) -> str:
    took = "" if run.duration_ms is None else f" after {span(run.duration_ms)}"
    why = f" ({run.detail})" if run.detail else ""
    return f"{run.status}{took}{why}"


def stories(runs: Iterable[Run]) -> list[Story]:
    """Put attempts, newest first, together to runs, newest first."""
    return [
        Story(tuple(reversed(list(attempts))))
        for _, attempts in groupby(runs, key=lambda run: (run.job, run.slot, run.run_id))
    ]


# --- the strip ----------------------------------------------------------------------


class Strip(NamedTuple):
    """The last runs of a job, oldest first, and what the figure says to who can't see it."""

    bars: tuple[Story, ...]
    words: str


def strip(told: Sequence[Story], most: int) -> Strip:
    """Return the strip of the newest runs."""
    bars = tuple(reversed(told[:most]))
    counts: dict[str, int] = {}
    for one in bars:
        counts[one.last.status] = counts.get(one.last.status, 0) + 1
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    return Strip(bars, f"The last {len(bars)} runs: {words}" if bars else "No runs yet")


# --- the lanes ----------------------------------------------------------------------


class Mark(NamedTuple):
    """Something in a lane, from `x` on, `width` wide, in percent."""

    kind: str
    x: float
    width: float
    status: str = ""
    words: str = ""


class Lane(NamedTuple):
    """A run with its marks."""

    story: Story
    marks: tuple[Mark, ...]


class Tick(NamedTuple):
    """A line at a time after the slot; `end` is where its text ends at the line."""

    x: float
    words: str
    end: bool


class Timeline(NamedTuple):
    """Lanes below each other, on one axis: the time since the slot."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    logarithmic: bool


class _Scale(NamedTuple):
    most_ms: float
    logarithmic: bool

    def place(self, ms: float) -> float:
        part = min(max(ms, 0) / self.most_ms, 1)
        if self.logarithmic:
            part = log1p(part * _DECADES) / log1p(_DECADES)
        return round(part * 98, 2)  # a little is left for what begins at the end


def timeline(told: Sequence[Story], now_ms: int) -> Timeline:
    """Return the lanes of these runs, in their order."""
    ends = [_end_ms(one.runs, place, now_ms) for one in told for place in range(len(one.runs))]
    offsets = [
        end - one.origin_ms
        for one, end in zip([one for one in told for _ in one.runs], ends, strict=True)
        if end is not None
    ]
    most = max([1, *offsets])
    # One that waited for an hour would make points of all the others.
    skewed = bool(offsets) and most > _SKEWED * max(1, median(offsets))
    scale = _Scale(most, skewed)
    lanes = tuple(Lane(one, tuple(_marks(one, scale, now_ms))) for one in told)
    return Timeline(lanes, _ticks(scale), skewed)


def _end_ms(runs: Sequence[Run], place: int, now_ms: int) -> int | None:
    """Return when an attempt ended, as well as it is known; None: it never began."""
    run = runs[place]
    if run.started_at is None:
        return None
    begun = milliseconds(run.started_at)
    if run.status == "running":
        return max(begun, now_ms)
    if run.duration_ms is not None:
        return begun + run.duration_ms
    if run.finished_at is not None:
        return max(begun, milliseconds(run.finished_at))
    follower = runs[place + 1].started_at if place + 1 < len(runs) else None
    return begun if follower is None else max(begun, milliseconds(follower))


def _marks(one: Story, scale: _Scale, now_ms: int) -> Iterable[Mark]:
    before = 0.0
    for place, run in enumerate(one.runs):
        end_ms = _end_ms(one.runs, place, now_ms)
        if run.started_at is None or end_ms is None:
            yield Mark("nothing", before, 0, run.status, f"{_ended(run)}")
            continue
        x = scale.place(milliseconds(run.started_at) - one.origin_ms)
        width = max(scale.place(end_ms - one.origin_ms) - x, _NARROWEST)
        if x > before:
            late = "late" if place == 0 else "gap"
            yield Mark(late, before, round(x - before, 2))
        yield Mark(
            "attempt", x, round(width, 2), run.status, f"attempt {run.attempt}: {_ended(run)}"
        )
        if run.reason == "takeover":
            yield Mark(
                "takeover", x, 0, run.status, f"taken over by {run.instance_id or 'another'}"
            )
        before = round(x + width, 2)


def _ticks(scale: _Scale) -> tuple[Tick, ...]:
    if scale.logarithmic:
        times: list[float] = [ms for ms in _TICKS_MS if scale.most_ms / 1500 <= ms <= scale.most_ms]
    else:
        step = _step(scale.most_ms / 4)
        times = [step * number for number in range(1, int(scale.most_ms / step) + 1)]
    kept: list[Tick] = [Tick(0, "0", end=False)]
    for ms in times:
        x = scale.place(ms)
        if x - kept[-1].x >= 14:
            kept.append(Tick(x, span(ms), end=x > 88))
    return tuple(kept)


def _step(least_ms: float) -> float:
    """Return a round time of at least so much."""
    return next((ms for ms in _ROUND_MS if ms >= least_ms), least_ms)


# --- in numbers -----------------------------------------------------------------------


class Numbers(NamedTuple):
    """Some runs in numbers; durations in ms, None where there is nothing to say."""

    runs: int
    success_percent: int | None
    median_ms: float | None
    longest_ms: int | None
    latest_ms: int | None
    takeovers: int


def numbers(told: Sequence[Story]) -> Numbers:
    """Return what can be counted of these runs."""
    decided = [one.last.status for one in told if one.last.status not in ("running", "skipped")]
    took = [one.last.duration_ms for one in told if one.last.duration_ms is not None]
    late = [one.late_ms for one in told if one.late_ms is not None and not one.last.manual]
    good = sum(status == "success" for status in decided)
    return Numbers(
        len(told),
        100 * good // len(decided) if decided else None,
        median(took) if took else None,
        max(took, default=None),
        max(late, default=None),
        sum(one.takeovers for one in told),
    )
