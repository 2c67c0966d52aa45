"""The store in memory: for one process, for tests, and for a simulator."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, TypeVar

from .._values import Present, RunKey, ServerInfo
from ._local import LocalBackend
from ._rules import JobState, is_order

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from .._values import Presence
    from ._rows import Position
    from ._rules import AttemptRow, Ending, Moment, RunState

T = TypeVar("T")


class MemoryBackend(LocalBackend):
    """A store in this process's memory, shared by any number of its schedulers.

    What it keeps lives as long as the object, through any number of `start` and `stop`.
    A forked child begins with an empty store: the runs of its parent are none of its
    business. Every method may be called from any thread.

    Args:
        namespace: Only a name; two `MemoryBackend` objects never see each other anyway.

    Raises:
        ConfigurationError: The namespace is not a printable text.
    """

    def __init__(self, *, namespace: str = "anarchon") -> None:
        super().__init__(namespace)
        self._lock = threading.Lock()
        self._rows = MemoryRows()

    def __repr__(self) -> str:
        return f"<MemoryBackend namespace={self.namespace!r}>"

    def _connect(self) -> ServerInfo:
        now = self._now()
        return ServerInfo("memory", sys.version.split()[0], now.wall_ms, self._steady)

    def abandon(self) -> None:
        """Begin anew: in a forked child the lock may be held, and the runs are the parent's."""
        super().abandon()
        self._lock = threading.Lock()
        self._rows = MemoryRows()

    def _read(self, operation: Callable[[MemoryRows, Moment], T], seconds: float) -> T:
        return self._write(operation, seconds)

    def _write(self, operation: Callable[[MemoryRows, Moment], T], seconds: float) -> T:
        del seconds  # nobody holds this lock for longer than an operation takes
        self._notice_fork()
        with self._lock:
            return operation(self._rows, self._now())


class _Runs:
    """The rows of runs, jobs and instances; `MemoryRows` has the rest."""

    def __init__(self) -> None:
        self._runs: dict[RunKey, RunState] = {}
        self._order: dict[str, list[tuple[int, str]]] = {}  # of each job: slot and manual token
        self._open: dict[str, dict[RunKey, RunState]] = {}  # of each job: its slots' open runs
        self._orders: dict[str, dict[RunKey, RunState]] = {}  # of each job: open ordered runs
        self._jobs: dict[str, JobState] = {}
        self._lines: dict[RunKey, dict[int, AttemptRow]] = {}
        self._checkpoints: dict[RunKey, str] = {}
        self._presents: dict[str, Present] = {}
        self._told: dict[str, tuple[int, str]] = {}
        self._paused_until_ms = 0

    def run(self, key: RunKey) -> RunState | None:
        """Return what is kept of a run."""
        return self._runs.get(key)

    def open_runs(self, job: str) -> list[RunState]:
        """Return the open runs of a job's slots, oldest slot first."""
        return sorted(self._open.get(job, {}).values(), key=_slot)

    def orders(self, jobs: Container[str]) -> dict[str, list[RunState]]:
        """Return the ordered runs of jobs that wait, and backfills that run, oldest first."""
        return {
            job: sorted(filter(is_order, runs.values()), key=_identity)
            for job, runs in self._orders.items()
            if job in jobs
        }

    def has_newer(self, job: str, slot_ms: int, until_ms: int) -> bool:
        """Whether a later slot, not after `until_ms`, is recorded."""
        order = self._order.get(job, [])
        later = range(bisect_left(order, (slot_ms + 1, "")), bisect_left(order, (until_ms + 1, "")))
        return any(not order[index][1] for index in later)

    def put(self, run: RunState) -> None:
        """Insert or replace a run."""
        key = run.key
        if key not in self._runs:
            insort(self._order.setdefault(key.job, []), (key.slot_ms, key.manual))
        self._runs[key] = run
        kind = self._orders if key.is_ordered else self._open
        if run.state == "closed" or key.is_called:
            _drop(kind, key)
        else:
            kind.setdefault(key.job, {})[key] = run

    def extend(self, run: RunState) -> None:
        """Replace the lease of a run."""
        self.put(run)

    def job(self, name: str) -> JobState:
        """Return what is kept of a job."""
        return self._jobs.get(name, JobState())

    def put_job(self, name: str, job: JobState) -> None:
        """Insert or replace a job."""
        self._jobs[name] = job

    def put_present(self, token: str, seen_ms: int, presence: Presence) -> None:
        """Keep what an instance says of itself."""
        expected_ms, state, about = presence
        if about is None:
            about = self._presents[token].about if token in self._presents else ""
        self._presents[token] = Present(token, seen_ms, expected_ms, state, about)

    def drop_present(self, token: str, expected_before_ms: int) -> None:
        """Forget an instance, and those that were expected before an instant."""
        for kept in list(self._presents.values()):
            if kept.token == token or kept.expected_ms < expected_before_ms:
                del self._presents[kept.token]

    def presents(self) -> list[Present]:
        """Return the instances that are kept."""
        return list(self._presents.values())

    def told_of(self, job: str) -> tuple[int, str] | None:
        """Return the newest slot of a job that was told of as unfinished, and by whom."""
        return self._told.get(job)

    def put_told(self, job: str, slot_ms: int, token: str) -> None:
        """Replace that slot."""
        self._told[job] = (slot_ms, token)

    def paused_until(self) -> int:
        """Return until when every job is paused."""
        return self._paused_until_ms

    def put_paused(self, until_ms: int) -> None:
        """Pause every job until then."""
        self._paused_until_ms = until_ms


class MemoryRows(_Runs):
    """The rows of a store, in dicts; see `_rows.Rows` for what each method does."""

    def attempt(self, key: RunKey, attempt: int) -> AttemptRow | None:
        """Return a line of history."""
        return self._lines.get(key, {}).get(attempt)

    def open_attempt(self, row: AttemptRow) -> None:
        """Add a line of history."""
        self._lines.setdefault(row.key, {})[row.attempt] = row

    def end_attempt(self, key: RunKey, attempt: int, ending: Ending) -> None:
        """Change a line of history, if it is there."""
        row = self.attempt(key, attempt)
        if row is not None:
            said = {name: value for name, value in ending._asdict().items() if value is not None}
            self._lines[key][attempt] = row._replace(**{"detail": None, **said})

    def checkpoint(self, key: RunKey) -> str | None:
        """Return the checkpoint of a run."""
        return self._checkpoints.get(key)

    def put_checkpoint(self, key: RunKey, value: str | None) -> None:
        """Replace the checkpoint of a run, or remove it."""
        if value is None:
            self._checkpoints.pop(key, None)
        else:
            self._checkpoints[key] = value

    def oldest(self, job: str, *, skips: bool) -> Iterator[RunState]:
        """Return closed or manual runs, oldest first: the skipped ones, or all others."""
        for slot_ms, manual in self._order.get(job, []):
            run = self._runs[RunKey(job, slot_ms, manual)]
            if (run.state == "closed" or manual) and (run.status == "skipped") is skips:
                yield run

    def count_attempts(self, key: RunKey) -> int:
        """Return how many lines of history a run has."""
        return len(self._lines.get(key, {}))

    def remove(self, key: RunKey) -> None:
        """Remove a run with all that belongs to it."""
        del self._runs[key]
        order = self._order[key.job]
        del order[bisect_left(order, (key.slot_ms, key.manual))]
        _drop(self._open, key)
        _drop(self._orders, key)
        self._lines.pop(key, None)
        self._checkpoints.pop(key, None)

    def lines(
        self, job: str | None, before: Position | None, wanted: tuple[str, ...]
    ) -> Iterator[AttemptRow]:
        """Return lines of history, newest first."""
        keys = self._runs if job is None else _keys(job, self._order.get(job, []))
        rows = [row for key in keys for row in self._lines.get(key, {}).values()]
        for row in sorted(rows, key=_position, reverse=True):
            fits = not wanted or row.status in wanted
            if fits and (before is None or _position(row) < before):
                yield row


def _drop(runs: dict[str, dict[RunKey, RunState]], key: RunKey) -> None:
    of_job = runs.get(key.job, {})
    of_job.pop(key, None)
    if not of_job:
        runs.pop(key.job, None)


def _slot(run: RunState) -> int:
    return run.key.slot_ms


def _identity(run: RunState) -> RunKey:
    return run.key


def _keys(job: str, order: list[tuple[int, str]]) -> list[RunKey]:
    return [RunKey(job, slot_ms, manual) for slot_ms, manual in order]


def _position(row: AttemptRow) -> Position:
    return row.key.slot_ms, row.key.job, row.key.manual, row.attempt
