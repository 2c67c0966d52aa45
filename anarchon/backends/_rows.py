"""What a store on one machine keeps its records in, as the operations see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from .._values import Presence, Present, RunKey
    from ._rules import AttemptRow, Ending, JobState, RunState

Position = tuple[int, str, str, int]  # slot, job, manual, attempt: the order of history


class RunRows(Protocol):
    """The rows of runs, jobs and instances; `Rows` has the rest."""

    def run(self, key: RunKey) -> RunState | None:
        """Return what is kept of a run."""
        ...

    def open_runs(self, job: str) -> Sequence[RunState]:
        """Return the running and waiting runs of a job's slots, oldest slot first."""
        ...

    def orders(self, jobs: Container[str]) -> Mapping[str, Sequence[RunState]]:
        """Return the open ordered runs of these jobs, oldest first: mostly there are none.

        Those that wait, and of backfills also those that run.
        """
        ...

    def has_newer(self, job: str, slot_ms: int, until_ms: int) -> bool:
        """Whether a slot after `slot_ms` and not after `until_ms` is recorded."""
        ...

    def put(self, run: RunState) -> None:
        """Insert or replace a run."""
        ...

    def extend(self, run: RunState) -> None:
        """Replace the lease of a run, and nothing else."""
        ...

    def job(self, name: str) -> JobState:
        """Return what is kept of a job; of an unknown one, the defaults."""
        ...

    def put_job(self, name: str, job: JobState) -> None:
        """Insert or replace a job."""
        ...

    def put_present(self, token: str, seen_ms: int, presence: Presence) -> None:
        """Keep what an instance says of itself, and what it said before of what is left out."""
        ...

    def drop_present(self, token: str, expected_before_ms: int) -> None:
        """Forget an instance, and those that were expected before an instant."""
        ...

    def presents(self) -> Iterable[Present]:
        """Return the instances that are kept."""
        ...

    def told_of(self, job: str) -> tuple[int, str] | None:
        """Return the newest slot of a job that was told of as unfinished, and by whose token."""
        ...

    def put_told(self, job: str, slot_ms: int, token: str) -> None:
        """Replace that slot."""
        ...

    def paused_until(self) -> int:
        """Return until when every job is paused, 0 for not at all."""
        ...

    def put_paused(self, until_ms: int) -> None:
        """Pause every job until then."""
        ...


class Rows(RunRows, Protocol):
    """What is kept, read and written inside one transaction."""

    def attempt(self, key: RunKey, attempt: int) -> AttemptRow | None:
        """Return a line of history."""
        ...

    def open_attempt(self, row: AttemptRow) -> None:
        """Add a line of history."""
        ...

    def end_attempt(self, key: RunKey, attempt: int, ending: Ending) -> None:
        """Change a line of history, if it is there."""
        ...

    def checkpoint(self, key: RunKey) -> str | None:
        """Return the checkpoint of a run."""
        ...

    def put_checkpoint(self, key: RunKey, value: str | None) -> None:
        """Replace the checkpoint of a run, or remove it."""
        ...

    def oldest(self, job: str, *, skips: bool) -> Iterable[RunState]:
        """Return closed or manual runs, oldest first: the skipped ones, or all others."""
        ...

    def count_attempts(self, key: RunKey) -> int:
        """Return how many lines of history a run has."""
        ...

    def remove(self, key: RunKey) -> None:
        """Remove a run with all its lines and its checkpoint."""
        ...

    def lines(
        self, job: str | None, before: Position | None, wanted: tuple[str, ...]
    ) -> Iterable[AttemptRow]:
        """Return lines older than `before`, newest first; `wanted`: these statuses only."""
        ...
