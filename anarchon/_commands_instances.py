"""Who shares a store, in words, and what those who are there disagree about."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ._commands_answers import DONE, Answer, answering, missing_file
from ._commands_rows import Table, _spaced, _table
from ._named import NamedTuple
from .backends.base import ClaimBackend
from .instances import doubled_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .instances import Instance
    from .scheduler import Scheduler

_MOST_NAMED = 5  # jobs or instances, in one sentence
_MOST_JOBS = 1000  # that an instance names
_SURELY = timedelta(seconds=1)
_HEADS = (
    *("instance", "host:pid", "state", "version", "jobs"),
    *("started (UTC)", "last seen", "next due", "clock offset"),
)


class Concern(NamedTuple):
    """Something that instances disagree about; the text says what to do."""

    level: Literal["note", "wrong"]
    name: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON."""
        return self._asdict()


@answering
def instances(scheduler: Scheduler) -> Answer:
    """List the instances that the store has heard from, and what they disagree about.

    Args:
        scheduler: Whose store is asked; it needn't run, nor have the jobs.
    """
    found = tuple(scheduler.instances())
    concerns = concerns_of(found)
    data = {
        "instances": [one.to_dict() for one in found],
        "warnings": [one.to_dict() for one in concerns],
    }
    table = instances_table(found, concerns, datetime.now(UTC))
    note = ""
    if not found:
        note = missing_file(scheduler)
        if not shows_instances(scheduler):
            table = table.then("this store keeps nothing of instances")
    return Answer(DONE, table.text, data, found, table=table, note=note)


def shows_instances(scheduler: Scheduler) -> bool:
    """Whether the store keeps anything of instances; one that somebody else wrote may not."""
    backend = scheduler._options.backend  # noqa: SLF001 - of this package
    return type(backend).instances is not ClaimBackend.instances


def instances_table(found: Sequence[Instance], concerns: Sequence[Concern], now: datetime) -> Table:
    """Return instances as a table, with what they disagree about below it."""
    if not found:
        return Table((), (), ("no instance is known to the store",))
    table = _table(_HEADS, [_cells(one, now) for one in found])
    for concern in concerns:
        table = table.then(f"{concern.level}: {concern.text}")
    return table


def _cells(one: Instance, now: datetime) -> tuple[str, ...]:
    offset = one.clock_offset
    return (
        one.instance_id,
        host_and_pid(one),
        state_words(one, now),
        one.version,
        job_count(one),
        *("-" if at is None else clock_words(at, now) for at in (one.started_at, one.last_seen)),
        "-" if one.next_due is None else clock_words(one.next_due, now),
        "-" if offset is None else offset_words(offset),
    )


def host_and_pid(one: Instance) -> str:
    """Return where an instance is: its host and its process."""
    return f"{one.host}:{one.pid}"


def job_count(one: Instance) -> str:
    """Return how many jobs an instance has, as far as it says."""
    return f"{_MOST_JOBS} or more" if len(one.jobs) >= _MOST_JOBS else str(len(one.jobs))


def state_words(one: Instance, now: datetime) -> str:
    """Return what an instance does, as it was heard from last."""
    expected = None if one.expected_at is None else clock_words(one.expected_at, now)
    if one.state == "running":
        return f"running {one.running}"
    if one.state == "idle":
        return f"idle, expected at {expected}" if expected else "idle, nothing more is due"
    since = f"silent since {clock_words(one.last_seen, now)}"
    return f"{since}, was expected at {expected}" if expected else since


def clock_words(at: datetime, now: datetime) -> str:
    """Return an instant in UTC to the second, with its date if that is another one."""
    text = _spaced(at.astimezone(UTC).replace(microsecond=0))
    return text if at.astimezone(UTC).date() != now.astimezone(UTC).date() else text[11:]


def offset_words(seconds: float) -> str:
    """Return how far the store's clock is ahead of a host's."""
    ms = round(seconds * 1000)
    return f"{ms:+} ms" if abs(ms) < 10_000 else f"{ms / 1000:+.0f} s"


# --- what they disagree about ---------------------------------------------------------


def concerns_of(found: Iterable[Instance], edition: str | None = None) -> tuple[Concern, ...]:
    """Return what the instances that aren't silent disagree about.

    Args:
        found: All instances.
        edition: That of the time zone database of this process, if it is to be compared as well.
    """
    # One that says nothing of itself has no name and no edition; so it has none that is wrong.
    living = [one for one in found if one.state != "silent" and one.version != "unknown"]
    return (*_of_schedules(living), *_of_editions(living, edition), *_of_names(living))


def _of_schedules(living: Sequence[Instance]) -> Iterable[Concern]:
    jobs_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for job in sorted({job for one in living for job in one.differs}):
        jobs_of[tuple(one.instance_id for one in living if job in one.jobs)].append(job)
    for names, jobs in jobs_of.items():
        whose = "the schedule" if len(jobs) == 1 else "the schedules"
        yield Concern(
            "note",
            "schedules-differ",
            f"{whose} of {some(jobs)} differ{'s' * (len(jobs) == 1)} between {some(names)}: so it"
            " is while new code is deployed; if it stays, bring all of them to the same code and"
            " settings.",
        )


def _of_editions(living: Sequence[Instance], edition: str | None) -> Iterable[Concern]:
    names_of: dict[str, list[str]] = defaultdict(list)
    for one in living:
        names_of[one.tzdata].append(one.instance_id)
    editions = sorted(names_of)
    if len(editions) > 1:
        where = some([f"{found} on {some(names_of[found])}" for found in editions], "; ")
        yield Concern(
            "note",
            "tzdata-differs",
            f"instances have different time zone databases: {where}. Where a zone's rules have"
            " changed their slots differ: bring all hosts to the same one.",
        )
    if edition is not None and editions and edition not in editions:
        yield Concern(
            "note",
            "tzdata-differs",
            f"this process has the time zone database {edition}, and instances have"
            f" {some(editions)}: the slots that it shows may not be theirs.",
        )


def _of_names(living: Sequence[Instance]) -> Iterable[Concern]:
    for name, same in doubled_names(living).items():
        places = {host_and_pid(one) for one in same}
        since = [f"{host_and_pid(one)} since {_start_words(one)}" for one in same]
        if _beside_each_other(same):
            what = "processes" if len(places) > 1 else "schedulers"
            yield Concern(
                "wrong",
                "instance-id",
                f"{len(same)} {what} have the id {name}: {some(since)}. History can't tell who of"
                " them ran what: give each its own instance_id, or leave it out.",
            )
        else:
            yield Concern(
                "note",
                "instance-id",
                f"the id {name} is there {len(same)} times: {some(since)}. If one came after"
                " another had died, that passes by itself; if both live, give each its own"
                " instance_id.",
            )


def _start_words(one: Instance) -> str:
    return _spaced((one.started_at or one.last_seen).replace(microsecond=0))


def _beside_each_other(same: Sequence[Instance]) -> bool:
    """Whether one of them was heard from when another had started.

    Otherwise it may have died, and come again under its name, as the process of a container does.
    """
    starts = [
        one.started_at + timedelta(seconds=one.clock_offset or 0) + _SURELY
        for one in same
        if one.started_at is not None
    ]
    if len(starts) < len(same):
        return False
    return sorted(one.last_seen for one in same)[-2] > max(starts)


def some(names: Sequence[str], between: str = ", ") -> str:
    """Return a few names, and how many others there are."""
    more = len(names) - _MOST_NAMED
    return f"{between.join(names[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"
