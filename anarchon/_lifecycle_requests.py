"""What is asked of a life of a scheduler, and how the asker gets its answer.

Everything goes through `SimpleQueue`, the one thing that may be used wherever a signal
handler has interrupted the main thread: no lock is taken here, and none is waited for.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from ._backlog import Backlog
from ._lifecycle_callers import caller_of
from ._messages import (
    Drained,
    Return,
    Stopped,
)
from ._named import NamedTuple
from ._trays import Tray
from .errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._clock import Clock
    from ._lifecycle import Life
    from ._lifecycle_states import State
    from ._values import Lease, RunKey


MOST_CHANGES = 100
"""So many changed jobs are dealt with at once: a stop waits for no more."""


class Word(Enum):
    """Answers that carry nothing else."""

    RUNNING = "running"
    ACCEPTED = "accepted"
    ENDED = "ended"
    TIMED_OUT = "timed out"


Answer: TypeAlias = "SimpleQueue[Any]"


class Join(NamedTuple):
    """A `start` wants its result. `patient`: try again until the store is there."""

    answer: Answer
    patient: bool


class Halt(NamedTuple):
    """A `stop`. `lease` is the run whose handler asks, and must not be waited for.

    `inside`: the asker is a listener or a logging handler called from this life. `after`
    is called on the life's thread when all is over.
    """

    timeout: float
    answer: Answer | None = None
    lease: Lease | None = None
    inside: bool = False
    after: Callable[[], object] | None = None


class Await(NamedTuple):
    """Somebody wants to know when this life is over; from inside, when its end begins."""

    answer: Answer
    inside: bool = False


class Changed(NamedTuple):
    """Jobs were defined, replaced or removed; the inbox's backlog has their names."""


class Call(NamedTuple):
    """A manual run; `wait` tells `run_now` from `submit`."""

    key: RunKey
    data: Any
    has_data: bool
    answer: Answer
    wait: bool


Request: TypeAlias = Join | Halt | Await | Changed | Call | Return | Drained | Stopped


class Inbox:
    """The requests to one life, until it is over.

    Threads: `put`, `changed` and `receive` are for everybody, the rest for the life.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.closing = False
        """Whether nothing more is handled; who is waited for gets no answer from here on."""
        self.over = False
        self._queue: Tray[Request] = Tray()
        self._changes: Backlog[str] = Backlog(partial(self._queue.put, Changed()))

    def put(self, request: Request) -> None:
        """Ask for something."""
        self._queue.put(request)

    def changed(self, name: str) -> None:
        """Tell that a job of that name was defined, replaced or removed."""
        self._changes.put(name, name)

    def changes(self) -> list[str]:
        """Return the names of some jobs that have changed; `Changed` comes again for more."""
        return self._changes.take(MOST_CHANGES)

    def receive(self, answer: Answer, timeout: float | None = None, *, inside: bool = False) -> Any:
        """Wait for an answer: `Word.TIMED_OUT` in time, `Word.ENDED` if there is none.

        There is none when the life is over, and for those `inside`, whom its end waits for,
        when it is closing: whatever was asked before that is answered.
        """
        until = None if timeout is None else self.clock.mono() + timeout
        while True:
            over = self.closing if inside else self.over
            left = None if until is None else max(until - self.clock.mono(), 0.0)
            said = self.clock.get(answer, 0.0 if over else left)
            if said is not None:
                return said
            if over:
                return Word.ENDED
            if until is not None and self.clock.mono() >= until:
                return Word.TIMED_OUT

    def next(self, timeout: float | None) -> Request | None:
        """Return the next request; None when none comes in time (None: no limit)."""
        return self._queue.next(lambda bell: self.clock.get(bell, timeout))

    def waiting(self) -> Iterator[Request]:
        """Yield the requests that are there."""
        while (request := self.next(0.0)) is not None:
            yield request

    def close(self) -> Iterator[Request]:
        """Be over; yield what came in too late to be handled, so that it is answered."""
        self.over = True
        return self.waiting()


def begin(life: Life, lives: dict[int, Life], *, patient: bool) -> bool:
    """Be the first to start: launch a life and wait until it runs, unless `patient`.

    If somebody else was first, share that start. Raises what made it fail.
    """
    answer: Answer = SimpleQueue()
    if not patient:
        # Put in before anybody can end this life, so that there will be an answer.
        life.inbox.put(Join(answer, patient=False))
    try:
        first = lives.setdefault(life.pid, life)
        if first is life:
            life.thread.launch()
            # Whatever the store takes to open, no test's time passes meanwhile.
            said = Word.RUNNING if patient else life.inbox.clock.get_still(answer)
            return _is_running(said)
    except BaseException:
        # A signal handler raised: nobody would know that it went on in the background.
        if not life.call_off():
            life.inbox.put(Halt(0.0))
            wait_no_more(life)
        raise
    return share(first, patient=patient)


def wait_no_more(life: Life) -> None:
    """Have the hooks at the exit not wait for a life: a signal handler raised while one waited."""
    life.exit_until = life.inbox.clock.mono()


def await_stop(life: Life, answer: Answer, timeout: float, *, inside: bool) -> None:
    """Wait for a stop that was asked for, at most the timeout."""
    try:
        life.inbox.receive(answer, timeout, inside=inside)
    except BaseException:
        wait_no_more(life)
        raise


def share(life: Life, *, patient: bool) -> bool:
    """Share a start in progress; False when it has to be tried again after a stop."""
    answer: Answer = SimpleQueue()
    life.inbox.put(Join(answer, patient))
    if caller_of(life).may_wait:
        return _is_running(life.inbox.receive(answer))
    state = life.state
    if state == "stopping" or (state == "starting" and not patient):
        raise NotRunning(
            f"the scheduler is {state}, and start() can't wait for that in a handler, a listener"
            " or a schedule, because the scheduler waits for those; call start() when this one"
            " has ended, or on a thread that isn't the scheduler's"
        )
    return state != "idle"


def _is_running(said: object) -> bool:
    if isinstance(said, BaseException):
        raise said
    return said is Word.RUNNING


_WHY_NOT = {
    "idle": "the scheduler is idle; call start() first",
    "starting": (
        "the scheduler is starting and hasn't reached its store yet; try again when its state is"
        ' "running"'
    ),
    "running": "it was removed a moment ago; define it again",
    "stopping": "the scheduler is stopping; call start() again first",
}


def not_running(
    name: str, state: State, *, enabled: bool = True, parent: int | None = None
) -> NotRunning:
    """Return the error for a manual run that can't be, because of the state.

    `parent`: the process that started the scheduler, where that is another one.
    """
    why = _WHY_NOT[state]
    if not enabled:
        why = "the scheduler has enabled=False; make it with enabled=True where jobs are to run"
    elif parent is not None and state == "idle":
        why = f"the scheduler was started in another process, {parent}; call start() here"
    return NotRunning(f"job {name!r} can't be run now: {why}")


def unfinished(key: RunKey) -> NotRunning:
    """Return the error for a manual run whose record can't be told any more."""
    return NotRunning(
        f"the scheduler stopped before the manual run {key.run_id} of job {key.job!r} was"
        " recorded; look for it in history()"
    )
