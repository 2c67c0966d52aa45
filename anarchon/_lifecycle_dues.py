"""What a life of a scheduler owes to others: stops to end, manual runs to return, jobs.

Used on the life's own thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lifecycle_requests import Word, unfinished
from ._log_lines import one_off_passed, trouble
from ._texts import counted
from .errors import Busy
from .jobs import spec_of
from .schedules import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._clock import Clock
    from ._jobs_registry import Registry
    from ._lifecycle_requests import Answer, Await, Call, Halt
    from ._lifecycle_states import State
    from ._log_lines import Line
    from ._messages import (
        JobSpec,
    )
    from ._runs import Run
    from ._scheduler_options import Options
    from ._threads import Engine
    from ._values import (
        Lease,
        RunKey,
    )
    from .jobs import Job


class Answers:
    """Those who wait for one and the same answer."""

    def __init__(self) -> None:
        self._waiting: list[Answer] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, answer: Answer) -> None:
        """Let one more wait."""
        self._waiting.append(answer)

    def give(self, said: object) -> None:
        """Answer all who wait."""
        while self._waiting:
            self._waiting.pop().put(said)


class Awaits:
    """Those who wait for the end of this life; those inside, for the stop that begins it."""

    def __init__(self) -> None:
        self._outside = Answers()
        self._inside = Answers()

    def add(self, request: Await, state: State) -> None:
        """Let somebody wait."""
        if not request.inside:
            self._outside.add(request.answer)
        elif state == "stopping":
            request.answer.put(Word.ENDED)
        else:
            self._inside.add(request.answer)

    def stopping(self) -> None:
        """Let those inside go on."""
        self._inside.give(Word.ENDED)

    def over(self) -> None:
        """Let everybody go on."""
        self.stopping()
        self._outside.give(Word.ENDED)


class Halts:
    """The stops that wait for the end of this life; the first one set the time limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.since = 0.0
        self.until = 0.0
        self.spare: frozenset[Lease] = frozenset()
        self._drained = False
        self._waiting: list[Halt] = []

    def begin(self, timeout: float) -> None:
        """Start the time of a stop."""
        self.since = self._clock.mono()
        self.until = self.since + timeout

    def left(self) -> float:
        """Return the seconds until the time limit."""
        return max(self.until - self._clock.mono(), 0.0)

    def took(self) -> float:
        """Return the seconds since the stop began."""
        return self._clock.mono() - self.since

    def add(self, halt: Halt) -> bool:
        """Let a stop wait; return whether there is one more run not to be waited for."""
        self._waiting.append(halt)
        more = halt.lease is not None and halt.lease not in self.spare
        if halt.lease is not None:
            self.spare |= {halt.lease}
        if self._drained:
            self.drained()
        return more

    def drained(self) -> None:
        """Let those go on whose own runs are all that is left."""
        self._drained = True
        self._answer([halt for halt in self._waiting if halt.lease is not None])

    def answer_inside(self) -> None:
        """Let listeners go on, since what comes next is to wait for listeners."""
        self._answer([halt for halt in self._waiting if halt.inside])

    def answer_all(self) -> None:
        """Let everybody go on, and do what was to be done after the end."""
        halts = self._waiting[:]
        self._answer(halts)
        for halt in halts:
            if halt.after is not None:
                halt.after()

    def _answer(self, halts: list[Halt]) -> None:
        for halt in halts:
            self._waiting.remove(halt)
            if halt.answer is not None:
                halt.answer.put(Word.ENDED)


class Calls:
    """The manual runs that go on here, and who waits for them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[RunKey, Answer | None] = {}

    def accept(self, call: Call) -> bool:
        """Note a call and return True, unless there are too many."""
        if len(self._answers) >= self._most:
            call.answer.put(_busy(self._most))
            return False
        self._answers[call.key] = call.answer if call.wait else None
        if not call.wait:
            call.answer.put(Word.ACCEPTED)
        return True

    def returned(self, key: RunKey, run: Run) -> None:
        """Give the record to whoever waits for it."""
        answer = self._answers.pop(key, None)
        if answer is not None:
            answer.put(run)

    def give_up(self) -> None:
        """Tell everybody who still waits that there will be no record."""
        for key in list(self._answers):
            answer = self._answers.pop(key)
            if answer is not None:
                answer.put(unfinished(key))


class GivenJobs:
    """The jobs as the engine has them, kept in step with the definitions.

    `say` is told of a one-off that came too late.
    """

    def __init__(
        self, registry: Registry, options: Options, clock: Clock, say: Callable[[Line], object]
    ) -> None:
        self._registry = registry
        self._options = options
        self._clock = clock
        self._say = say
        self._given: dict[str, Job] = {}

    def __len__(self) -> int:
        return len(self._wanted())

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def begin(self) -> list[JobSpec]:
        """Return all jobs that are to run, for an engine that has none yet."""
        self._given = self._wanted()
        return [self._spec(job) for job in self._given.values()]

    def changed(self) -> list[str]:
        """Return the names of those that came or went since `begin`."""
        wanted = self._wanted()
        names = {**wanted, **self._given}
        return [name for name in names if self._given.get(name) is not wanted.get(name)]

    def keep(self, engine: Engine, names: Iterable[str]) -> None:
        """Make the engine's jobs of these names those that are defined now."""
        for name in names:
            try:
                self._keep(engine, name)
            except Exception as error:
                self._say(trouble(f"job {name!r} could not be given to the engine", error))

    def _keep(self, engine: Engine, name: str) -> None:
        job = self._registry.find(name)
        if job is not None and not job.enabled:
            job = None
        if job is self._given.get(name):
            return
        if job is None:
            del self._given[name]
            engine.remove(name)
        else:
            self._given[name] = job
            engine.add(self._spec(job))

    def _wanted(self) -> dict[str, Job]:
        return {job.name: job for job in self._registry.jobs if job.enabled}

    def _spec(self, job: Job) -> JobSpec:
        if isinstance(job.schedule, Once):
            late = self._clock.wall() - job.schedule.slot_ms / 1000
            if late > job.catch_up:
                self._say(one_off_passed(job.name, job.schedule.slot_ms))
        options = self._options
        return spec_of(job, lease_ms=options.lease_ms, heartbeat_ms=options.heartbeat_ms)


def _busy(most: int) -> Busy:
    are = "is" if most == 1 else "are"
    return Busy(
        f"{counted(most, 'manual run')} {are} going on here, as many as there are workers; wait"
        " for one of them to end, or give the scheduler more workers"
    )
