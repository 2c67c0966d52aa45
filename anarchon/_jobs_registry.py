"""The jobs of one scheduler, by name."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from ._durations import check_askable, shown
from ._named import NamedTuple
from .errors import ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .jobs import Job


class Addition(NamedTuple):
    """A job to add, and whether it may take the place of one with its name."""

    job: Job
    replace: bool = False


class Registry:
    """The jobs of one scheduler by name, in the order of definition.

    Safe from any thread, and where a signal handler or a `__del__` has interrupted a
    change on the same thread. ``order`` is held while a change is made and told, so that
    two changes are told in the order they were made; and no longer, since nobody knows
    what else waits for it: no code of a user's is called meanwhile, and no job let go of,
    because what goes with it is somebody's object.

    Each step on a dict here is one that nothing can interrupt.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._forms: dict[object, str] = {}
        self._mentioned: list[tuple[str, str]] = []
        self.renew_locks()

    def renew_locks(self) -> None:
        """Make a new lock: in a forked child the old one may be held for ever."""
        self.order = threading.RLock()

    def add(self, job: Job, *, replace: bool = False) -> None:
        """Add a job, or put it in the place of one with its name.

        Raises:
            ConfigurationError: The name is taken and `replace` is False.
        """
        self.add_all([Addition(job, replace)])

    def add_all(
        self, additions: Sequence[Addition], tell: Callable[[Job], object] = lambda _: None
    ) -> None:
        """Add all of these jobs or none, and tell of each.

        Raises:
            ConfigurationError: A name is taken, or occurs twice.
        """
        with self.order:
            taken = self._taken(additions)
            added = [job for job, _ in additions] if taken is None else []
            replaced = [self._put(job) for job in added]
            for job in added:
                tell(job)
        del replaced
        if taken is not None:
            raise _taken_by(*taken)

    def remove(self, name: str, tell: Callable[[str], object] = lambda _: None) -> bool:
        """Remove a job and tell of it; False when there is none of this name."""
        with self.order:
            removed = self._jobs.pop(name, None)
            if removed is not None:
                tell(name)
        return removed is not None

    def _taken(self, additions: Iterable[Addition]) -> tuple[Job, Job] | None:
        """Return the job that is in the way of one of these, and that one, if there is any."""
        new: dict[str, Job] = {}
        for job, replace in additions:
            there = new.get(job.name) or self._jobs.get(job.name)
            if there is not None and not replace:
                return there, job
            new[job.name] = job
        return None

    def _put(self, job: Job) -> Job | None:
        there = self._jobs.get(job.name)
        self._jobs[job.name] = job
        return there

    def find(self, name: str) -> Job | None:
        """Return the job of this name, if there is one."""
        return self._jobs.get(name)

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            JobNotFound: There is none of this name.
            ConfigurationError: The name is no text.
        """
        if (job := self.find(checked_text(name))) is not None:
            return job
        from difflib import get_close_matches

        jobs = self._jobs.copy()
        near = get_close_matches(name, jobs, n=3)
        if near:
            fix = f"did you mean {' or '.join(map(repr, near))}?"
        else:
            fix = f"the jobs are {shown(list(jobs))}" if jobs else "no job is defined"
        raise JobNotFound(f"no job {shown(name)} on this scheduler; {fix}")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs, in the order of definition."""
        # A copy is made in one step; going through the dict itself is not one.
        return tuple(self._jobs.copy().values())

    def expect(self, form: object, text: str) -> None:
        """Remember that a decorator was made, and how it reads."""
        self._forms[form] = text

    def applied(self, form: object) -> None:
        """Forget a decorator: it was applied."""
        self._forms.pop(form, None)

    def unapplied(self) -> list[str]:
        """Return the decorators that were made but not applied, as they read."""
        return list(self._forms.copy().values())

    def mention(self, what: str, names: Iterable[object]) -> None:
        """Remember that `what` was told of jobs by their names; they may be defined later."""
        self._mentioned += [(what, name) for name in names if isinstance(name, str)]

    def unknown(self) -> list[str]:
        """Return a line for each job that was named and isn't there."""
        found = []
        for what, name in self._mentioned.copy():
            try:
                self.get(name)
            except JobNotFound as error:
                found.append(f"{what}: {error}")
        return found


def _taken_by(there: Job, new: Job) -> ConfigurationError:
    """Return the refusal of a second job of a name, which says where both come from."""
    place, other = place_of(new.handler), place_of(there.handler)
    whose = f" for {place}" if place != other else ""
    return ConfigurationError(
        f"job {new.name!r}: there is one of this name already, on {shown(there.schedule)} for"
        f" {other}; choose another name{whose}, or say replace=True if this one is to take the"
        " place of that"
    )


def place_of(handler: object) -> str:
    """Return the module and the name of a function, or how an object without them is shown."""
    try:
        while isinstance(handler, partial):
            handler = handler.func
        module, name = handler.__module__, handler.__qualname__  # type: ignore[attr-defined]
    except Exception:
        return shown(handler)
    both = isinstance(module, str) and isinstance(name, str)
    return f"{module}.{name}" if both else shown(handler)


def check_name(name: object) -> None:
    """Raise `ConfigurationError` unless this is None, for every job, or a text."""
    if name is not None:
        checked_text(name)


def checked_text(name: object) -> str:
    """Return what is asked for as the name of a job.

    Raises:
        ConfigurationError: It is no text.
    """
    check_askable(name, "name")
    if not isinstance(name, str):
        raise ConfigurationError(f"name: {shown(name)} is not the name of a job; give text")
    return str.__str__(name)
