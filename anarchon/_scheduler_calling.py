"""The part of the scheduler that runs jobs by hand."""

from __future__ import annotations

import os
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ._listening import UNSET
from ._values import RunKey
from .errors import JobNotFound

if TYPE_CHECKING:
    from ._clock import Clock
    from ._jobs_registry import Registry
    from ._lifecycle import Life
    from ._lifecycle_requests import Answer
    from ._runs import Run
    from ._scheduler_options import Options


class Calling:
    """The methods of a scheduler that run a job now, from any thread."""

    _registry: Registry
    _clock: Clock
    _options: Options
    _parent: int | None

    def _life(self) -> Life | None:
        """Return the life that is going on in this process; a forked child has none."""
        raise NotImplementedError

    def run_now(self, name: str, *, data: Any = UNSET) -> Run:
        """Run a job now on this instance, and return its record when it has ended.

        The run is not shared, not blocked by others and never taken over. When the job's
        timeout or the limit of a stop comes first, the record says so. It is returned
        when the handler has ended and history has the record; while the store is down
        that comes later, and nobody waits for it.

        Args:
            name: The job.
            data: What the handler finds as ``ctx.data``, in place of the job's own.

        Raises:
            JobNotFound: There is no job of this name here, or it has ``enabled=False``.
            ConfigurationError: The name is no text.
            NotRunning: The scheduler isn't running.
            Busy: As many manual runs as there are workers are going on already.
            RuntimeError: Called by a schedule, or by a ``__del__`` that came to run on a
                thread of the scheduler's own.
        """
        run: Run = self._call(name, data, wait=True)[1]
        return run

    def submit(self, name: str, *, data: Any = UNSET) -> str:
        """Do as `run_now` does, but return the run's ``run_id`` without waiting for it."""
        return self._call(name, data, wait=False)[0].run_id

    def _call(self, name: str, data: Any, *, wait: bool) -> tuple[RunKey, Any]:
        """Ask for a manual run; return its key and (`wait`) its record, when it has ended."""
        from ._lifecycle_callers import refuse_own
        from ._lifecycle_requests import Call, Word, not_running, unfinished

        name = _checked(self._registry, name)
        life = self._life()
        if life is None or life.state != "running":
            raise not_running(
                name,
                "idle" if life is None else life.state,
                enabled=self._options.enabled,
                parent=self._parent,
            )
        refuse_own(life, "run_now()" if wait else "submit()")
        key = RunKey(name, int(self._clock.wall() * 1000), os.urandom(8).hex())
        answer: Answer = SimpleQueue()
        has_data = data is not UNSET
        life.inbox.put(Call(key, data if has_data else None, has_data, answer, wait))
        # From where a life closes on, no call of anybody's is handled any more.
        said = life.inbox.receive(answer, inside=True)
        if isinstance(said, BaseException):
            raise said
        if said is Word.ENDED:
            raise unfinished(key)
        return key, said


def _checked(registry: Registry, name: str) -> str:
    """Return the name of a job that may run here."""
    job = registry.get(name)
    if not job.enabled:
        raise JobNotFound(
            f"job {job.name!r} is defined with enabled=False here, so it does not run; define it"
            " with enabled=True, or call its function"
        )
    return job.name
