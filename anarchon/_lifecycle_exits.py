"""The end of a process with a running scheduler.

The interpreter calls the functions of `threading._register_atexit` when the main thread
has ended, before it joins anybody's threads, and those of `atexit` later. Children of
`multiprocessing` get only the former. So the hook stands in both, and whoever comes
second joins the stop in progress. The former is private to CPython: without it, only a
child of `multiprocessing` needs something in its place.

Nothing here may be relied upon for correctness: a process that is killed calls no hook,
and its leases run out.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from ._lifecycle_forks import lives
from ._lifecycle_requests import Halt, wait_no_more

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._lifecycle import Life
    from ._lifecycle_requests import Answer

_GRACE_SECONDS = 2.0

_hooked_pid: int | None = None


def enter(life: Life) -> None:
    """Let the end of the process stop this life."""
    lives.add(life)
    _hook_exit()


def leave(life: Life) -> None:
    """Forget a life that is over; the hooks stay and find nothing to do."""
    lives.discard(life)


def has_twin(life: Life) -> bool:
    """Return whether another life of this process races it on the same store and namespace.

    In memory that is what tests do; elsewhere a module was probably imported twice.
    """
    mine = repr(life.options.backend)
    others = [other for other in tuple(lives) if other is not life and other.state == "running"]
    in_memory = life.info is not None and life.info.store == "memory"
    return not in_memory and any(repr(other.options.backend) == mine for other in others)


def _hook_exit() -> None:
    """Register the hook, once per process; forked children inherit the registration."""
    global _hooked_pid  # noqa: PLW0603 - a process has one interpreter exit
    pid = os.getpid()
    if _hooked_pid == pid:
        return
    inherited = _hooked_pid is not None
    _hooked_pid = pid
    if not inherited:
        atexit.register(stop_all)
    register: Callable[[Callable[[], None]], None] | None
    register = getattr(threading, "_register_atexit", None)
    if register is None:
        _hook_multiprocessing_child()
    elif not inherited:
        try:
            register(stop_all)
        except RuntimeError:
            # The interpreter is shutting down already; `atexit` is still to come.
            return


def _hook_multiprocessing_child() -> None:
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, stop_all, exitpriority=100)


def stop_all() -> None:
    """Stop all lives of this process, each within its `exit_timeout`; a hook.

    Called twice, it waits no longer in all. An exception that a signal handler raises
    here, or has raised in a `stop`, ends the waiting for good: whoever presses Ctrl-C
    again wants to leave.
    """
    pid = os.getpid()
    ours = [life for life in tuple(lives) if life.pid == pid and life.options.stop_on_exit]
    asked = [(life, *_ask(life)) for life in ours]
    try:
        for life, answer, until in asked:
            life.inbox.receive(answer, max(until - life.inbox.clock.mono(), 0.0))
    except BaseException:
        for life in ours:
            wait_no_more(life)
        raise


def _ask(life: Life) -> tuple[Answer, float]:
    seconds = life.options.exit_seconds
    if life.exit_until is None:
        # A stop that somebody else has begun may be allowed more time than there is here.
        grace = _GRACE_SECONDS if life.state == "running" else 0.0
        life.exit_until = life.inbox.clock.mono() + seconds + grace
    answer: Answer = SimpleQueue()
    life.inbox.put(Halt(seconds, answer))
    return answer, life.exit_until
