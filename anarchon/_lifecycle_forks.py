"""Forks: a child gets a copy of everything, and nothing of it works there.

Its threads are missing, its locks may be held for ever, and its connections belong to
the parent. So what stands here is dropped in a child, never closed. Some servers (uWSGI)
fork without telling Python: there the process id alone shows it, which every method of a
scheduler compares.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from ._jobs_registry import Registry
    from ._lifecycle import Life

# The lives of this process that are not over. Changes and copies are single steps.
lives: set[Life] = set()
_registries: WeakSet[Registry] = WeakSet()
_watching = False


def renew_in_children(registry: Registry) -> None:
    """Give a registry new locks in every forked child, and let forks be noticed."""
    global _watching  # noqa: PLW0603 - such hooks can't be removed again
    _registries.add(registry)
    if not _watching and hasattr(os, "register_at_fork"):
        _watching = True
        os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)


def drop_foreign(of_scheduler: dict[int, Life], registry: Registry) -> int:
    """Forget the lives of other processes that a child's scheduler has inherited.

    Where Python was told of the fork, they are abandoned already. Returns the process
    that the last one belongs to.
    """
    pid = os.getpid()
    foreign = pid
    for other in [other for other in tuple(of_scheduler) if other != pid]:
        life, foreign = of_scheduler.pop(other, None), other
        if life is not None and not life.inbox.over:
            registry.renew_locks()
            lives.discard(life)
            life.abandon()
            life.journal.warn_of_fork(other)
    return foreign


def _in_parent() -> None:
    for life in tuple(lives):
        life.journal.forked(life.pid)


def _in_child() -> None:
    for registry in tuple(_registries):
        registry.renew_locks()
    inherited = tuple(lives)
    lives.clear()
    for life in inherited:
        life.abandon()
