"""The jobs of one scheduler, by name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ._durations import shown
from .errors import ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .jobs import Job


class Addition(NamedTuple):
    """A job to add, and whether it may take the place of one with its name."""

    job: Job
    replace: bool = False


class Registry:
    """The jobs of one scheduler by name, in the order of definition.

    Safe from any thread. Whoever changes it and then tells somebody else holds
    ``order`` meanwhile, so that two changes are told in the order they were made; no
    method here needs it.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._forms: dict[object, str] = {}
        self.renew_locks()

    def renew_locks(self) -> None:
        """Make new locks: in a forked child the old ones may be held for ever."""
        self._lock = threading.Lock()
        self.order = threading.RLock()

    def add(self, job: Job, *, replace: bool = False) -> None:
        """Add a job, or put it in the place of one with its name.

        Raises:
            ConfigurationError: The name is taken and `replace` is False.
        """
        self.add_all([Addition(job, replace)])

    def add_all(self, additions: Iterable[Addition]) -> None:
        """Add all of these jobs or none.

        Raises:
            ConfigurationError: A name is taken, or occurs twice.
        """
        with self._lock:
            jobs = dict(self._jobs)
            for job, replace in additions:
                if job.name in jobs and not replace:
                    raise ConfigurationError(
                        f"job {job.name!r}: there is one of this name already, on"
                        f" {shown(jobs[job.name].schedule)}; choose another name, or say"
                        " replace=True"
                    )
                jobs[job.name] = job
            self._jobs = jobs

    def remove(self, name: str) -> bool:
        """Remove a job; False when there is none of this name."""
        with self._lock:
            jobs = dict(self._jobs)
            removed = jobs.pop(name, None) is not None
            self._jobs = jobs
            return removed

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            JobNotFound: There is none of this name.
        """
        jobs = self._jobs
        if name in jobs:
            return jobs[name]
        from difflib import get_close_matches

        near = get_close_matches(str(name), jobs, n=3)
        if near:
            fix = f"did you mean {' or '.join(map(repr, near))}?"
        else:
            fix = f"the jobs are {shown(list(jobs))}" if jobs else "no job is defined"
        raise JobNotFound(f"no job {shown(name)} on this scheduler; {fix}")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs, in the order of definition."""
        return tuple(self._jobs.values())

    def expect(self, form: object, text: str) -> None:
        """Remember that a decorator was made, and how it reads."""
        with self._lock:
            self._forms[form] = text

    def applied(self, form: object) -> None:
        """Forget a decorator: it was applied."""
        with self._lock:
            self._forms.pop(form, None)

    def unapplied(self) -> list[str]:
        """Return the decorators that were made but not applied, as they read."""
        with self._lock:
            return list(self._forms.values())
