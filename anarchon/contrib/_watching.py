"""Where what watches runs comes in on a scheduler: around each attempt, and with each event."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .._log_lines import trouble, write
from ..errors import ConfigurationError
from ._found import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from .._listening import RunListener
    from .._values import RunEvent
    from ..context import Context
    from ..scheduler import Scheduler

    Around: TypeAlias = Callable[[Context], AbstractContextManager[object]]

# How an attempt ends, by the events that tell of it.
ENDS: tuple[RunEvent, ...] = ("success", "failure", "interrupted", "skipped", "missed", "lost")


class Watcher:
    """Watches the runs of one scheduler; its listeners are methods of its own.

    Args:
        scheduler: The scheduler.
        what: The call that makes this, for messages.

    Raises:
        ConfigurationError: That is no scheduler, it runs already, or it is watched so already.
    """

    def __init__(self, scheduler: Scheduler, what: str) -> None:
        self.scheduler = checked(scheduler, what)
        self._survived = False
        if scheduler.state != "idle":
            raise ConfigurationError(
                f"{what}: the scheduler is {scheduler.state} already, and what handlers run in is"
                " settled by its start; call this before start()"
            )
        if any(watcher.scheduler is scheduler for watcher in self._earlier()):
            raise ConfigurationError(
                f"{what} was called for this scheduler before; call it once, or each run would be"
                " told of twice"
            )

    def watch(self, listeners: Mapping[RunEvent, RunListener], around: Around | None) -> None:
        """Listen to these events, and enter this around each attempt, outside of what was there."""
        for earlier in self._earlier():
            # Of another scheduler: the apps of a Flask factory share their listeners, and the
            # latest app is the one that counts.
            earlier._leave(self.scheduler)  # noqa: SLF001 - of this class
        for event, listener in listeners.items():
            self.scheduler.on(event, listener)
        options = self.scheduler._options  # noqa: SLF001 - of this package
        if around is not None:
            entered = _outside(around, options.around)
            self.scheduler._options = options._replace(around=entered)  # noqa: SLF001

    def survive(self, what: str, error: Exception) -> None:
        """Say once that something in here went wrong; handlers run all the same."""
        if not self._survived:
            self._survived = True
            write(trouble(what, error), self.scheduler._options.logger)  # noqa: SLF001

    def _earlier(self) -> list[Watcher]:
        """Return those of this class whose listeners are called by this scheduler."""
        listening = self.scheduler._listeners._all  # noqa: SLF001 - of this package
        found = [getattr(listener, "__self__", None) for _, listener in listening]
        return [watcher for watcher in found if isinstance(watcher, type(self))]

    def _leave(self, scheduler: Scheduler) -> None:
        listeners = scheduler._listeners  # noqa: SLF001 - of this package
        for event, listener in tuple(listeners._all):  # noqa: SLF001
            if getattr(listener, "__self__", None) is self:
                listeners.discard(event, listener)


def _outside(ours: Around, theirs: Around | None) -> Around:
    if theirs is None:
        return ours

    @contextmanager
    def entered(ctx: Context) -> Iterator[None]:
        with ours(ctx), theirs(ctx):
            yield

    return entered


def run_id_of(ctx: Context) -> str:
    """Return the text that names the run in history."""
    return ctx._start.lease.key.run_id  # noqa: SLF001 - of this package


def tags_of(ctx: Context) -> tuple[str, ...]:
    """Return the tags of the job."""
    return tuple(getattr(ctx._start.spec.job, "tags", ()))  # noqa: SLF001 - of this package


def handler_name(ctx: Context) -> str | None:
    """Return the full name of the function that the job runs, if it has one."""
    handler = getattr(ctx._start.spec.job, "handler", None)  # noqa: SLF001 - of this package
    for _ in range(8):  # partials of partials
        if getattr(handler, "__qualname__", None) is not None:
            break
        handler = getattr(handler, "func", None) or type(handler)
    name = getattr(handler, "__qualname__", None)
    module = getattr(handler, "__module__", None)
    if not isinstance(name, str):
        return None
    return f"{module}.{name}" if isinstance(module, str) else name
