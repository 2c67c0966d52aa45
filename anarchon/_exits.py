"""The ways in which a process with a running scheduler ends or doubles: exit and fork.

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
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING
from weakref import WeakSet

from ._log_lines import forked
from ._requests import Halt

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._definitions import Registry
    from ._lifecycle import Life
    from ._requests import Answer

_GRACE_SECONDS = 2.0

# The lives of this process that are not over. Its changes and its copies are single steps.
_lives: set[Life] = set()
_registries: WeakSet[Registry] = WeakSet()
_hooked_pid: int | None = None
_watching_forks = False


def enter(life: Life) -> None:
    """Let the end of the process, and forks, be noticed for this life."""
    _lives.add(life)
    _hook_exit()


def leave(life: Life) -> None:
    """Forget a life that is over; the hooks stay and find nothing to do."""
    _lives.discard(life)


def has_twin(life: Life) -> bool:
    """Return whether another life of this process races it on the same store and namespace.

    In memory that is what tests do; elsewhere a module was probably imported twice.
    """
    mine = repr(life.options.backend)
    others = [other for other in tuple(_lives) if other is not life and other.state == "running"]
    in_memory = life.info is not None and life.info.store == "memory"
    return not in_memory and any(repr(other.options.backend) == mine for other in others)


def renew_in_children(registry: Registry) -> None:
    """Give a registry new locks in every forked child."""
    _registries.add(registry)
    _watch_forks()


# --- exit -------------------------------------------------------------------------


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
    here ends the waiting, for good: whoever presses Ctrl-C again wants to leave.
    """
    pid = os.getpid()
    lives = [life for life in tuple(_lives) if life.pid == pid and life.options.stop_on_exit]
    asked = [(life, *_ask(life)) for life in lives]
    try:
        for life, answer, until in asked:
            life.inbox.receive(answer, max(until - time.monotonic(), 0.0))
    except BaseException:
        for life in lives:
            life.exit_until = time.monotonic()
        raise


def _ask(life: Life) -> tuple[Answer, float]:
    seconds = life.options.exit_seconds
    if life.exit_until is None:
        # A stop that somebody else has begun may be allowed more time than there is here.
        grace = 0.0 if life.state == "stopping" else _GRACE_SECONDS
        life.exit_until = time.monotonic() + seconds + grace
    answer: Answer = SimpleQueue()
    life.inbox.put(Halt(seconds, answer))
    return answer, life.exit_until


# --- fork -------------------------------------------------------------------------


def _watch_forks() -> None:
    global _watching_forks  # noqa: PLW0603 - such hooks can't be removed again
    if not _watching_forks and hasattr(os, "register_at_fork"):
        _watching_forks = True
        os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)


def _in_parent() -> None:
    for life in tuple(_lives):
        life.journal.forked(life.pid)


def _in_child() -> None:
    """Drop what belongs to the parent: its threads are not here, its locks may be held."""
    for registry in tuple(_registries):
        registry.renew_locks()
    lives = tuple(_lives)
    _lives.clear()
    for life in lives:
        life.abandon()


def drop_foreign(lives: dict[int, Life], registry: Registry) -> None:
    """Forget lives of other processes in a forked child.

    Some servers fork without Python's hooks (uWSGI), so that nothing was dropped yet.
    """
    pid = os.getpid()
    for other in [other for other in tuple(lives) if other != pid]:
        life = lives.pop(other, None)
        if life is not None and not life.inbox.over:
            registry.renew_locks()
            _lives.discard(life)
            life.abandon()
            life.journal.logger.warning(forked(other).text)
