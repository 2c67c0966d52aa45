"""What commands answer with: a text, JSON, rows, and an exit status."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from ._named import NamedTuple
from ._texts import message_of
from .errors import AnarchonError, BackendError, Busy, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._commands_rows import Table
    from .scheduler import Scheduler

P = ParamSpec("P")

DONE, NOT_DONE, NOT_MEANT = 0, 1, 2

# The first class that fits counts: `NotRunning` is a RuntimeError as well.
_STATUS_OF = {BackendError: NOT_DONE, Busy: NOT_DONE, NotRunning: NOT_DONE, RuntimeError: NOT_DONE}


class Answer(NamedTuple):
    """What a command has to say.

    `data` is ready for JSON, one object. `error` is a line without an end, or None. `table` is
    what the text was made of, for whoever can show it in colour. `note` is a line for stderr beside
    the rest, or nothing.
    """

    status: int
    text: str = ""
    data: dict[str, Any] | None = None
    rows: tuple[Any, ...] = ()
    error: str | None = None
    table: Table | None = None
    note: str = ""

    @property
    def json(self) -> str:
        """The data as JSON."""
        return json.dumps(self.data, indent=2)


def answering(command: Callable[P, Answer]) -> Callable[P, Answer]:
    """Make what anarchon raises the answer, so that no command ends with a traceback."""

    @wraps(command)
    def answer(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return command(*args, **kwargs)
        except (AnarchonError, ImportError, RuntimeError) as error:
            return refusal(error)

    return answer


def refusal(error: Exception) -> Answer:
    """Return what a command answers that failed so: a message in one line, and a status."""
    found = (status for kind, status in _STATUS_OF.items() if isinstance(error, kind))
    return Answer(next(found, NOT_MEANT), error=in_one_line(error))


def in_one_line(error: BaseException) -> str:
    """Return what an exception says, or its type where it says nothing."""
    return " ".join(message_of(error).split()) or type(error).__name__


def is_known(scheduler: Scheduler, name: str | None) -> bool:
    """Return whether a job is defined here or has records; where no job is, it may be elsewhere.

    Raises:
        JobNotFound: It is surely misspelled: others are defined. The message has the nearest names.
    """
    if name is None or any(job.name == name for job in scheduler.jobs):
        return True
    if scheduler.history(name, limit=1):
        return True
    if scheduler.jobs:
        scheduler.next_slots(name, 1)  # raises JobNotFound
    return False


def missing_file(scheduler: Scheduler) -> str:
    """Return what to say of a store in a file that nobody has made yet; nothing if it is there."""
    from .backends._rights import is_missing_file

    backend = scheduler._options.backend  # noqa: SLF001 - of this package
    if not is_missing_file(backend):
        return ""
    return f"{backend!r}: there is no such file yet; the first start() makes it"
