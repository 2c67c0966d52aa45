"""What became of a slot: the story of its attempts, or why there is none.

Everything here is computed from lines of history and from the job's own schedule; nothing is
asked and nothing is written. A slot without a record of its own may be covered by the record
of a later one: what nobody could run for a while is closed by one record for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._core_missed import first_covered
from ._durations import duration_text
from ._runs import called_for
from ._texts import counted
from ._values import instant, moment
from .backends._rules_end import KEPT_ALWAYS, KEPT_SKIPS
from .backends.base import LeaseBackend
from .schedules import slot_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ._messages import SlotSource
    from ._runs import Run
    from .backends.base import ClaimBackend
    from .jobs import Job

Outcome: TypeAlias = Literal[
    "running",
    "success",
    "failed",
    "interrupted",
    "skipped",
    "missed",
    "lost",
    "too late",
    "never claimed",
    "due",
    "future",
    "no slot",
    "no record",
]

_PAGE = 100
_OLDER = 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one slot of a job, and why; its `str` is the text.

    ``outcome`` is the status of the last attempt where there is a record, and else

    - ``too late``: nobody claimed it within the job's ``catch_up``;
    - ``never claimed``: nobody claimed it before a newer slot was due, which took its place;
    - ``due``: nobody has claimed it yet;
    - ``future``: its time has not come;
    - ``no slot``: the job is not due then;
    - ``no record``: it is older than the oldest record there is.

    ``runs`` are the attempts, oldest first; of a slot that was missed together with later ones,
    the record that stands for all of them. ``slot`` is milliseconds since 1970 UTC.

    ``backfills`` are the attempts at a slot that somebody asked the fleet for afterwards, oldest
    first. They change nothing of what became of the slot itself.
    """

    job: str
    slot: int
    outcome: Outcome
    runs: tuple[Run, ...]
    text: str
    backfills: tuple[Run, ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON."""
        runs = [run.to_dict() for run in self.runs]
        backfills = [run.to_dict() for run in self.backfills]
        return {
            "job": self.job,
            "slot": self.slot,
            "scheduled_at": instant(self.slot).isoformat(),
            "outcome": self.outcome,
            "runs": runs,
            "backfills": backfills,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """When a job is due, as it is defined here: its schedule, its ``catch_up`` in ms."""

    source: SlotSource
    catch_up_ms: int
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of history around a slot, newest first; `complete`: there are no older ones."""

    newer: tuple[Run, ...]
    own: tuple[Run, ...]
    older: tuple[Run, ...]
    complete: bool


def lines_around(store: ClaimBackend, name: str, slot_ms: int) -> Lines:
    """Read the lines around a slot: all newer ones, and enough older ones to see a pattern.

    It is at most what history keeps of one job, in pages. That is mostly one.
    """
    runs: list[Run] = []
    while True:
        page = store.history(name, limit=_PAGE, before=runs[-1] if runs else None)
        runs += page
        complete = len(page) < _PAGE
        if complete or sum(run.slot < slot_ms for run in page) >= _OLDER:
            return _around(slot_ms, runs, complete=complete)


def _around(slot_ms: int, runs: Sequence[Run], *, complete: bool) -> Lines:
    """Sort the lines of a job, newest first, by where they are from a slot."""
    newer = tuple(run for run in runs if run.slot > slot_ms)
    own = tuple(run for run in runs if run.slot == slot_ms)
    return Lines(newer, own, tuple(run for run in runs if run.slot < slot_ms), complete)


def plan_of(job: Job, store: ClaimBackend) -> Plan:
    """Return when a job is due; raises `ConfigurationError` for what is no schedule."""
    # Where there are no leases nothing is caught up.
    catch_up_ms = round(job.catch_up * 1000) if isinstance(store, LeaseBackend) else 0
    return Plan(slot_source(job.schedule), catch_up_ms, enabled=job.enabled)


def is_passed_over(own: Sequence[Run]) -> bool:
    """Whether all that is recorded of a slot is that a newer one came first.

    Of instances that return from one outage the second one writes that, of a slot for which
    the record of the first one stands already.
    """
    return [(run.status, run.detail) for run in own] == [("skipped", "newer slot")]


def told(name: str, slot_ms: int, lines: Lines, plan: Plan | None = None) -> Explanation | None:
    """Return what the records say of a slot; None when none of them is about it.

    Without a plan nothing is known of slots between two records, nor why a slot has none.
    """
    scheduled = tuple(reversed([run for run in lines.own if not run.manual]))
    called = [run for run in lines.own if run.manual and called_for(run) != "backfilled"]
    covering = tuple(run for run in lines.newer if _covers(run, slot_ms))[:1]
    runs = covering if covering and is_passed_over(scheduled) else scheduled or covering
    runs = runs or tuple(reversed(called))
    if runs:
        return told_of(name, slot_ms, runs, lines, plan)
    if plan is None and _backfills(lines):
        return _finished(name, slot_ms, "no record", (), f"no record: {_NOT_HERE}", lines)
    return None


def told_of(
    name: str, slot_ms: int, runs: tuple[Run, ...], lines: Lines, plan: Plan | None
) -> Explanation:
    """Return what is to be said of these attempts, which are one run's, oldest first."""
    last = runs[-1]
    head = f"{_headline(last)}{_streak(last, lines, plan)}"
    if last.slot != slot_ms:
        head = f"{head} (one record, that of {moment(last.scheduled_at)}, stands for this slot too)"
    elif last.manual:
        head = f"{head}, {called_for(last)}"
    return _finished(name, slot_ms, last.status, runs, head, lines)


def untold(name: str, slot_ms: int, lines: Lines, plan: Plan, now_ms: int) -> Explanation:
    """Return why a slot has no record."""
    outcome, why = _why(slot_ms, lines, plan, now_ms)
    if not plan.enabled and outcome != "no slot":
        why = f"{why} (the job is defined with enabled=False here)"
    return _finished(name, slot_ms, outcome, (), f"{outcome}: {why}", lines)


def _finished(
    name: str, slot_ms: int, outcome: Outcome, runs: tuple[Run, ...], head: str, lines: Lines
) -> Explanation:
    """Return an explanation, with what was backfilled of the slot besides."""
    story = [] if outcome in {"skipped", "missed"} else [_attempt(run) for run in runs]
    backfills = () if runs and called_for(runs[-1]) == "backfilled" else _backfills(lines)
    if backfills:
        calls = {run.run_id for run in backfills}
        often = f" {len(calls)} times, at last" if len(calls) > 1 else ""
        head = f"{head}; backfilled{often}: {_headline(backfills[-1])}"
        story += [f"backfilled, {_attempt(run)}" for run in backfills]
    text = "\n  ".join([f"{name} @ {moment(instant(slot_ms))}: {head}", *story])
    return Explanation(name, slot_ms, outcome, runs, text, backfills)


def _backfills(lines: Lines) -> tuple[Run, ...]:
    """Return the attempts at a slot that the fleet was asked for afterwards, oldest first."""
    found = [run for run in lines.own if called_for(run) == "backfilled"]
    return tuple(sorted(found, key=lambda run: (run.started_at or run.scheduled_at, run.attempt)))


def _why(slot_ms: int, lines: Lines, plan: Plan, now_ms: int) -> tuple[Outcome, str]:
    if plan.source.next_after_ms(slot_ms - 1) != slot_ms:
        return "no slot", f"the job is not due then; {_neighbours(plan.source, slot_ms)}"
    if slot_ms > now_ms:
        return "future", f"it is due in {duration_text(_rounded(slot_ms - now_ms))}"
    if (lost := _may_be_gone(slot_ms, lines)) is not None:
        return "no record", lost
    next_ms = plan.source.next_after_ms(slot_ms)
    if next_ms is not None and next_ms <= min(now_ms, slot_ms + plan.catch_up_ms):
        newer = moment(instant(next_ms))
        return "never claimed", (
            f"no instance with this job asked the store before the next slot, {newer}, was due;"
            " only the latest slot is caught up"
        )
    if now_ms - slot_ms > plan.catch_up_ms:
        allowed = duration_text(plan.catch_up_ms) if plan.catch_up_ms else "0"
        return "too late", (
            f"no instance with this job asked the store within catch_up={allowed} after it was due"
        )
    return "due", "no instance has claimed it yet"


def _may_be_gone(slot_ms: int, lines: Lines) -> str | None:
    """Return why a record may be gone; None when history still has all of that time.

    Skips are kept apart, and fewer of them: what was skipped again and again is soon forgotten,
    while older runs are there.
    """
    runs = [run for run in (*lines.newer, *lines.older) if not run.manual]
    skips = [run for run in runs if run.status == "skipped"]
    others = [run for run in runs if run.status != "skipped"]
    if lines.complete and len(others) >= KEPT_ALWAYS and others[-1].slot > slot_ms:
        oldest = moment(others[-1].scheduled_at)
        return f"it is older than all runs that history keeps, which begin at {oldest}"
    if len(skips) >= KEPT_SKIPS and skips[-1].slot > slot_ms:
        oldest = moment(skips[-1].scheduled_at)
        return (
            f"it may have been skipped, of which history keeps the last {KEPT_SKIPS} slots, since"
            f" {oldest}; if not, no instance with this job asked the store in time"
        )
    return None


def _rounded(ms: int) -> int:
    return ms // 1000 * 1000 or ms


def _neighbours(source: SlotSource, slot_ms: int) -> str:
    around = (source.latest_ms(slot_ms), source.next_after_ms(slot_ms))
    named = [moment(instant(ms)) for ms in around if ms is not None]
    if not named:
        return "it has no slot at all"
    return f"its slots around it: {', '.join(named)}"


# --- words ---

_NOT_HERE = "why the slot has none of its own, can only be told where the job is defined"
_REASONS = {
    ("skipped", "overlap"): (
        "another run of the job was going on, or could still be continued (overlap)"
    ),
    ("skipped", "paused"): "the job was paused",
    ("skipped", "newer slot"): "a newer slot was decided first",
    ("interrupted", "handed over"): (
        "handed over by an instance that stopped; nobody has continued it yet"
    ),
}


def _headline(run: Run) -> str:
    why = _reason(run)
    tries = f" at attempt {run.attempt}" if run.attempt > 1 else ""
    return f"{run.status}{tries}{f': {why}' if why else ''}"


def _reason(run: Run) -> str:
    """Return why an attempt ended as it did, in words for people."""
    detail = run.detail or ""
    if (run.status, detail) in _REASONS:
        return _REASONS[run.status, detail]
    if run.status == "running":
        return "" if run.instance_id is None else f"on {run.instance_id}"
    if run.status == "failed":
        return _first_line(run.error or detail or "no reason given")
    return _first_line(detail or run.error or "")


def _attempt(run: Run) -> str:
    """Return the line of one attempt: who, when, and how it ended."""
    where = "" if run.instance_id is None else f" on {run.instance_id}"
    begun = "" if run.started_at is None else f", started {moment(run.started_at)}"
    took = "" if run.duration_ms is None else f" after {run.duration_ms} ms"
    why = f" ({run.detail})" if run.detail else ""
    error = f": {_first_line(run.error)}" if run.error else ""
    ended = f"{run.status}{took}{why}{error}"
    return f"attempt {run.attempt} ({run.reason}){where}{begun}: {ended}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# --- neighbours ---


def _covers(run: Run, slot_ms: int) -> bool:
    if run.status != "missed" or run.manual:
        return False
    return first_covered(run.slot, run.detail) <= slot_ms


def _streak(last: Run, lines: Lines, plan: Plan | None) -> str:
    """Say how many slots in a row went this way, when that is a pattern.

    A slot without a record ends it. Where nobody knows the slots, records are counted.
    """
    if last.status not in {"failed", "skipped", "missed", "lost"} or last.manual:
        return ""
    before = list(_last_attempts(lines.older))
    same: list[Run] = []
    for run in before:
        if _kind(run) != _kind(last) or not _is_next(run, same[-1] if same else last, plan):
            break
        same.append(run)
    if not same:
        return ""
    since = moment(same[-1].scheduled_at)
    least = "at least " if len(same) == len(before) and not lines.complete else ""
    what = "record" if plan is None else "slot"
    return f"; {least}{counted(len(same) + 1, what)} in a row, since {since}"


def _is_next(run: Run, after: Run, plan: Plan | None) -> bool:
    """Whether no slot lies between two records, as far as that is known."""
    if plan is None:
        return True
    try:
        return plan.source.next_after_ms(run.slot) == first_covered(after.slot, after.detail)
    except Exception:  # a schedule of somebody else's
        return False


def _kind(run: Run) -> tuple[str, str | None]:
    return run.status, run.detail if run.status == "skipped" else None


def _last_attempts(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the last attempt of each slot, newest first; runs by hand are none."""
    scheduled = (run for run in runs if not run.manual)
    for _, attempts in groupby(scheduled, key=lambda run: run.slot):
        yield next(attempts)
