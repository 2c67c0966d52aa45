"""Django's database connections on the threads that run handlers.

Each thread has its own. Django closes the broken and the old ones at the beginning and at the end
of each request, and handlers are no requests. So it is done here; else, after the server has
dropped a connection once, each further query of that thread would fail for ever.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ...context import Context

_here = threading.local()


class _Leftovers:
    """The connections of a thread, which are closed when the thread ends and drops this."""

    wrappers: tuple[BaseDatabaseWrapper, ...] = ()

    def __del__(self) -> None:
        for wrapper in self.wrappers:
            with suppress(Exception):
                _close_for_good(wrapper)


def _close_for_good(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection of a thread that ends, also one to a SQLite database in memory.

    Django never closes those, because with the last one the database is gone. In tests it is the
    main thread that has the last one; ours would only be warned about when it is collected.
    """
    is_in_memory = getattr(wrapper, "is_in_memory_db", bool)()
    if is_in_memory and not wrapper.allow_thread_sharing:
        BaseDatabaseWrapper.close(wrapper)
    else:
        wrapper.close()


@contextmanager
def around_run(
    inner: Callable[[Context], AbstractContextManager[object]] | None, ctx: Context
) -> Iterator[None]:
    """Give a handler working connections, and leave none behind that is broken or too old.

    Args:
        inner: The option `around` of the project, entered inside of this.
        ctx: The context of the run.
    """
    for wrapper in _ours():
        wrapper.queries_log.clear()
        wrapper.close_if_unusable_or_obsolete()
        _close_broken(wrapper)
    try:
        with nullcontext() if inner is None else inner(ctx):
            yield
    finally:
        # What has happened in the handler has happened, whatever becomes of a connection.
        with suppress(Exception):
            for wrapper in _ours():
                wrapper.close_if_unusable_or_obsolete()
        _keep_for_the_end()


def _ours() -> list[BaseDatabaseWrapper]:
    """Return the connections of this thread on which nobody has a transaction.

    On a thread of the scheduler these are all. A test that runs a handler itself is in one.
    """
    every = connections.all(initialized_only=True)
    return [wrapper for wrapper in every if not wrapper.in_atomic_block]


def _close_broken(wrapper: BaseDatabaseWrapper) -> None:
    """Try out what this thread has kept since an earlier run, which may be hours ago.

    Django finds out by a query that fails, unless CONN_HEALTH_CHECKS is on. A page is loaded
    again then; a run that failed is not repeated.
    """
    if wrapper.connection is not None and not wrapper.is_usable():
        wrapper.close()


def _keep_for_the_end() -> None:
    """Have the connections of this thread closed when it ends; else they stay until collected."""
    leftovers: _Leftovers | None = getattr(_here, "leftovers", None)
    if leftovers is None:
        leftovers = _here.leftovers = _Leftovers()
    leftovers.wrappers = tuple(connections.all(initialized_only=True))
