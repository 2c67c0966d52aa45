"""Schedulers that a test doesn't have to stop."""

from __future__ import annotations

from contextlib import contextmanager

from anarchon import MemoryBackend, Scheduler


@contextmanager
def maker(prepare=None, **defaults):
    """Give a function that makes schedulers, and stop them at the end; `prepare` sees each."""
    made = []

    def make_one(backend=None, **options):
        scheduler = Scheduler(backend or MemoryBackend(), **{**defaults, **options})
        if prepare is not None:
            prepare(scheduler)
        made.append(scheduler)
        return scheduler

    yield make_one
    for scheduler in made:
        scheduler.stop(2)
