"""What `Scheduler.instances` answers: the processes that share a store, and when each was heard."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._values import LATEST_MS, instant

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ._values import Presences, Present

Activity: TypeAlias = Literal["running", "idle", "silent"]

# A call may come late by a lease, which is three heartbeats, before anybody should wonder.
_GRACE = 3
_LEAST_GRACE_MS = 5000


@dataclass(frozen=True, slots=True)
class Instance:
    """A process whose scheduler runs on the store, as the store heard from it last.

    It says so with the calls that it makes anyway, so that one without work is heard from when
    its next slot is due: until ``expected_at`` (None: no slot is to come) it is ``idle``, or
    ``running`` where handlers were running, and only a while after that it is ``silent``. One
    that stopped is gone; one that was killed stays until a day after it was expected.

    ``jobs`` are the names of its jobs, the first 1000 of them. ``differs`` names those of them
    whose schedule is another one on another instance that isn't silent, as during a deploy, or
    where one has forgotten it. ``clock_offset`` is the store's clock minus the host's, in
    seconds. Nothing of this is used to schedule anything.
    """

    instance_id: str
    host: str
    pid: int
    version: str
    jobs: tuple[str, ...]
    started_at: datetime | None
    last_seen: datetime
    next_due: datetime | None
    clock_offset: float | None
    state: Activity
    expected_at: datetime | None
    running: int
    tzdata: str
    differs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON; datetimes as ISO text."""
        fields = asdict(self)
        for name in ("started_at", "last_seen", "next_due", "expected_at"):
            fields[name] = fields[name].isoformat() if fields[name] else None
        return {**fields, "jobs": list(self.jobs), "differs": list(self.differs)}


def instances_of(presences: Presences) -> list[Instance]:
    """Return what a store keeps of instances, by their names, the oldest of a name first."""
    read = [_Read(kept, presences.store_ms) for kept in presences.instances]
    marks: dict[str, set[str]] = defaultdict(set)
    for one in read:
        if one.activity != "silent":
            for job, mark in one.marks.items():
                marks[job].add(mark)
    differing = {job for job, found in marks.items() if len(found) > 1}
    found = [one.instance(differing) for one in read]
    return sorted(found, key=lambda one: (one.instance_id, one.started_at or one.last_seen))


def doubled_names(instances: Iterable[Instance]) -> dict[str, list[Instance]]:
    """Return the instances that aren't silent and have a name in common, by that name."""
    by_name: dict[str, list[Instance]] = defaultdict(list)
    for one in instances:
        if one.state != "silent":
            by_name[one.instance_id].append(one)
    return {name: same for name, same in by_name.items() if len(same) > 1}


class _Read:
    """What is kept of an instance, read with care: anybody may have written there."""

    def __init__(self, kept: Present, store_ms: int) -> None:
        self._kept = kept
        self._about, self._state = _object(kept.about), _object(kept.state)
        jobs = self._about.get("jobs")
        self.marks = {
            job: mark
            for job, mark in (jobs.items() if isinstance(jobs, dict) else ())
            if isinstance(mark, str)
        }
        grace_ms = max(_LEAST_GRACE_MS, _GRACE * (self._number("heartbeat", self._about) or 0))
        running = self._number("running", self._state) or 0
        self._running = running
        self.activity: Activity = "running" if running else "idle"
        if store_ms > kept.expected_ms + grace_ms:
            self.activity = "silent"

    def instance(self, differing: set[str]) -> Instance:
        """Return it as it is shown."""
        offset = self._state.get("offset")
        expected_ms = self._kept.expected_ms
        return Instance(
            instance_id=self._text("name"),
            host=self._text("host"),
            pid=self._number("pid", self._about) or 0,
            version=self._text("version"),
            jobs=tuple(self.marks),
            started_at=_instant(self._number("started", self._about)),
            last_seen=_instant(self._kept.seen_ms) or instant(0),
            next_due=_instant(self._number("next", self._state)),
            clock_offset=offset if isinstance(offset, float) else None,
            state=self.activity,
            expected_at=_instant(expected_ms),
            running=self._running,
            tzdata=self._text("tzdata"),
            differs=tuple(job for job in self.marks if job in differing),
        )

    def _text(self, name: str) -> str:
        value = self._about.get(name)
        return value if isinstance(value, str) else "unknown"

    def _number(self, name: str, where: dict[str, Any]) -> int | None:
        value = where.get(name)
        return value if type(value) is int and value >= 0 else None


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None or not 0 <= ms < LATEST_MS else instant(ms)
