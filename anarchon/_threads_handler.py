"""One attempt on its own thread: call the handler, and say how it ended.

Whatever a handler does ends in an `Ended`: no exception gets past this module, not even
`SystemExit`. Nothing that was raised is kept, only its texts, so that an exception's
frames die with the attempt.

Exceptions and results are objects of the user's: they are judged by their type alone, since
`isinstance` asks for `__class__`, which in a lazy proxy, say, may compute or raise anything.
"""

from __future__ import annotations

import contextvars
import sys
from contextlib import suppress
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

from ._messages import (
    Ended,
)
from ._named import NamedTuple
from ._one_process import OneProcess
from ._traces import described
from .errors import Aborted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from ._signal import Switch
    from ._values import Lease
    from .context import Context

    Around: TypeAlias = Callable[[Context], AbstractContextManager[object]]

T = TypeVar("T")

_ITERABLE_COROUTINE = 0x100  # what `types.coroutine` marks a generator with
_MRO = type.__dict__["__mro__"]
_ATTRIBUTES = type.__dict__["__dict__"]


class Attempt(NamedTuple):
    """What a worker needs to run one attempt."""

    lease: Lease
    context: Context
    switch: Switch
    handler: Callable[..., object]
    pass_context: bool
    around: Around | None


def run_attempt(attempt: Attempt) -> Ended:
    """Run an attempt on this thread, in a fresh context of context variables.

    A handler whose signal has aborted before it could be called is not called.
    """
    switch = attempt.switch
    switch.bind()
    if switch.reason is not None:
        return Ended(attempt.lease, unstarted=True)
    try:
        with OneProcess():
            contextvars.Context().run(_enter, attempt)
    except BaseException as error:
        texts = described(error, without=_call.__code__.co_filename)
        return Ended(attempt.lease, *texts, aborted=_is_abort(error, switch))
    return Ended(attempt.lease)


def _enter(attempt: Attempt) -> None:
    if attempt.around is None:
        _call(attempt)
    else:
        with attempt.around(attempt.context):
            _call(attempt)


def _call(attempt: Attempt) -> None:
    """Call the handler; what it returns is dropped, unless it is work still to be done."""
    handler = attempt.handler
    result = handler(attempt.context) if attempt.pass_context else handler()
    if _is_a(result, AsyncGeneratorType):
        raise TypeError(
            "the handler returned an async generator, which nobody would iterate; "
            "iterate over it inside the handler instead of yielding"
        )
    if _is_awaitable(result):
        _run_to_end(result, attempt.switch)
    elif _is_a(result, GeneratorType) and _never_began(result):
        raise TypeError(
            "the handler returned a generator that was never iterated, so nothing of it ran; "
            "iterate over it inside the handler"
        )


def _is_awaitable(result: object) -> TypeGuard[Awaitable[object]]:
    if _is_a(result, GeneratorType):
        return bool(result.gi_code.co_flags & _ITERABLE_COROUTINE)
    return is_awaitable(result)


def is_awaitable(value: object) -> bool:
    """Say whether `await` would find something to call, without asking the object."""
    return any("__await__" in _ATTRIBUTES.__get__(base) for base in _MRO.__get__(type(value)))


def _is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    return issubclass(type(value), kind)


def _never_began(generator: GeneratorType[Any, Any, Any]) -> bool:
    import inspect

    return inspect.getgeneratorstate(generator) == inspect.GEN_CREATED


def _run_to_end(awaitable: Awaitable[object], switch: Switch) -> None:
    """Run an awaitable in an event loop of its own; the signal cancels it."""
    import asyncio

    raised: list[BaseException] = []
    with asyncio.Runner() as runner:
        runner.run(_outcome(awaitable, switch, raised))
    if raised:
        # Taken out of the list, since the traceback holds frames, and these hold the list.
        raise raised.pop()


async def _outcome(
    awaitable: Awaitable[object], switch: Switch, raised: list[BaseException]
) -> None:
    """Await it, and put what it raised into a list: kept in a task it would hold frames."""
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    cancel = partial(_cancel, loop, task)
    switch.hook(cancel)
    try:
        await awaitable
    except BaseException as error:
        raised.append(error)
    finally:
        switch.unhook(cancel)


def _cancel(loop: AbstractEventLoop, task: Task[object]) -> None:
    """Cancel a task of another thread's loop, unless that has just been closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(task.cancel)


def _is_abort(error: BaseException, switch: Switch) -> bool:
    """Say whether it only says that the signal aborted, so that its text is worth nothing."""
    if _is_a(error, Aborted):
        return True
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or switch.reason is None:
        return False
    return _is_a(error, asyncio.CancelledError)
