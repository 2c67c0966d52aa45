"""User code that forks: its child ends where the user code does.

A handler may call `os.fork`. The child has one thread, a copy of the one that called, and
that is a thread of ours: going on in it would serve a scheduler that isn't there, for ever.
So a child that comes back from user code ends its process, as a child forked by the main
thread does at the end of the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import TracebackType

_CTRL_C = 130  # as a shell tells of it


class OneProcess:
    """``with OneProcess(): ...`` around user code; in a child that it forked, the end.

    On the main thread a child goes on, as in any program.
    """

    def __enter__(self) -> None:
        is_ours = threading.current_thread() is not threading.main_thread()
        self._pid = os.getpid() if is_ours else None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pid is not None and os.getpid() != self._pid:
            end_child(error)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, with the status that what was raised stands for.

    The interpreter itself would only end the thread: no exit hook would run, what was
    printed would be lost, and the status would be 0 whatever was raised.
    """
    status = 1
    with suppress(BaseException):
        status = _status(error)
    # Of other threads, those that the child has started and that are no daemons.
    shutdown = getattr(threading, "_shutdown", None)
    hooks = getattr(atexit, "_run_exitfuncs", None)
    for step in (shutdown, hooks, _flush):
        if step is not None:
            with suppress(BaseException):
                step()
    os._exit(status)


def _status(error: BaseException | None) -> int:
    """Say what the interpreter would say, and return its exit status."""
    if error is None:
        return 0
    if not issubclass(type(error), SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return _CTRL_C if issubclass(type(error), KeyboardInterrupt) else 1
    code = getattr(error, "code", None)
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
