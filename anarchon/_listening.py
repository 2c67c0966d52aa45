"""Who listens to what: the names of events, and the listeners.

What listeners are told is in ``_runs.py`` and ``events.py``, and loaded when it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, overload

from ._durations import check_askable, shown
from ._values import RunEvent
from .errors import ConfigurationError

if TYPE_CHECKING:
    from typing import Self

    from ._explanations import Explanation
    from ._runs import Run
    from .events import StoreEvent

StoreEventName: TypeAlias = Literal["store_down", "store_up"]
OtherEventName: TypeAlias = Literal["overdue"]
EventName: TypeAlias = RunEvent | StoreEventName | OtherEventName

EVENTS: frozenset[str] = frozenset(
    (*get_args(RunEvent), *get_args(StoreEventName), *get_args(OtherEventName))
)


class _Unset:
    def __repr__(self) -> str:
        return "..."  # as signatures show what may be left out


UNSET: Any = _Unset()
"""Stands for an argument that was not given, where None may be one given by mistake."""


RunListener: TypeAlias = "Callable[[Run], object]"
StoreListener: TypeAlias = "Callable[[StoreEvent], object]"
OverdueListener: TypeAlias = "Callable[[Explanation], object]"
AnyListener: TypeAlias = Callable[[Any], object]

RunListenerT = TypeVar("RunListenerT", bound=RunListener)
StoreListenerT = TypeVar("StoreListenerT", bound=StoreListener)
OverdueListenerT = TypeVar("OverdueListenerT", bound=OverdueListener)
AnyListenerT = TypeVar("AnyListenerT", bound=AnyListener)


class Listeners:
    """Who listens to what, in the order of `add`.

    Threads: any. A list's `append`, `remove` and copy are each one step, so no lock is
    needed, and a signal handler or a fork can't find one held.
    """

    def __init__(self) -> None:
        self._all: list[tuple[str, AnyListener]] = []

    def add(self, event: str, listener: AnyListener) -> None:
        """Add a listener; raises `ConfigurationError` for what can't be one."""
        check_event(event)
        _check_listener(event, listener)
        self._all.append((event, listener))

    def discard(self, event: str, listener: AnyListener) -> bool:
        """Remove a listener once; return whether it was there."""
        check_event(event)
        try:
            self._all.remove((event, listener))
        except ValueError:
            return False
        return True

    def of(self, event: str) -> tuple[AnyListener, ...]:
        """Return those who listen to this event now."""
        return tuple(listener for name, listener in tuple(self._all) if name == event)


class Listening:
    """The methods of a scheduler that add and remove listeners, from any thread, any time.

    Listeners are called one after another on a thread of their own, after the record is
    written, in the order in which things happened. What one raises is logged. When too
    many events wait for a slow one, further events are dropped, counted and logged.
    """

    _listeners: Listeners

    @overload
    def on(self, event: RunEvent) -> Callable[[RunListenerT], RunListenerT]: ...
    @overload
    def on(self, event: StoreEventName) -> Callable[[StoreListenerT], StoreListenerT]: ...
    @overload
    def on(self, event: OtherEventName) -> Callable[[OverdueListenerT], OverdueListenerT]: ...
    @overload
    def on(self, event: RunEvent, fn: RunListener) -> Self: ...
    @overload
    def on(self, event: StoreEventName, fn: StoreListener) -> Self: ...
    @overload
    def on(self, event: OtherEventName, fn: OverdueListener) -> Self: ...
    def on(self, event: EventName, fn: Any = UNSET) -> Any:
        """Listen to an event.

        ``on(event, fn)`` returns the scheduler, so that calls chain; ``on(event)``
        decorates a function and returns it unchanged.

        Args:
            event: ``started success failure interrupted skipped missed takeover lost``
                bring the `Run`, ``store_down store_up`` a `StoreEvent`, and ``overdue``
                an `Explanation` of a slot that nobody has finished within the
                ``expect_within`` of its job: one instance tells of each.
            fn: A function of one argument; not ``async def``.

        Raises:
            ConfigurationError: There is no such event, or `fn` can't listen.
        """
        if fn is not UNSET:
            self._listeners.add(event, fn)
            return self
        check_event(event)

        def decorate(listener: AnyListenerT) -> AnyListenerT:
            self._listeners.add(event, listener)
            return listener

        return decorate

    def off(self, event: EventName, fn: AnyListener) -> bool:
        """Stop listening; return whether this function was listening to this event.

        Events that wait for it are not brought any more. A function that was added twice
        has to be removed twice.

        Raises:
            ConfigurationError: There is no such event.
        """
        return self._listeners.discard(event, fn)


def check_event(event: object) -> None:
    """Raise `ConfigurationError` unless there is an event of that name."""
    check_askable(event, "event")
    if not isinstance(event, str) or event not in EVENTS:
        known = ", ".join(sorted(EVENTS))
        raise ConfigurationError(f"there is no event {shown(event)}; listen to one of: {known}")


def _check_listener(event: str, listener: object) -> None:
    check_askable(listener, f"on({event!r})")
    if not callable(listener):
        raise ConfigurationError(
            f"on({event!r}): {shown(listener)} can't be called; pass a function of one argument"
        )
    if is_async(listener):
        raise ConfigurationError(
            f"on({event!r}): {shown(listener)} is async, and listeners run on a thread"
            " without an event loop; pass a plain function"
        )
    if (wrong := refuses(listener, 1)) is not None:
        raise ConfigurationError(
            f"on({event!r}): {shown(listener)} can't be called with one argument ({wrong}); pass a"
            " function of one argument"
        )


def refuses(function: Any, arguments: int) -> str | None:
    """Return why a function can't be called with so many arguments; None if it can."""
    import inspect

    try:
        signature = inspect.signature(function)
    except Exception:  # builtins without one, and objects that break when they are asked
        return None
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        return f"its signature is {signature}: {error}"
    return None


def is_async(listener: Any) -> bool:
    """Return whether calling this makes a coroutine or an async generator."""
    import functools
    import inspect

    while isinstance(listener, functools.partial):
        listener = listener.func
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    call = getattr(type(listener), "__call__", None)  # noqa: B004 - the method itself is wanted
    return any(kind(candidate) for kind in kinds for candidate in (listener, call))
