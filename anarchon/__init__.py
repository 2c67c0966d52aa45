"""Scheduled jobs inside the processes of a web service, without a leader.

The names below are loaded when they are first used, so that importing the package costs
next to nothing, and no driver is imported before a backend needs it.
"""

from __future__ import annotations

# Type checkers know the name; `typing` itself takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._durations import Duration
    from ._explanations import Explanation
    from ._runs import Run
    from .backends.memory import MemoryBackend
    from .backends.postgres import PostgresBackend
    from .backends.redis import RedisBackend
    from .backends.sqlite import SqliteBackend
    from .context import Context, Signal
    from .decorators import cron, every, once, rrule, schedule
    from .errors import (
        Aborted,
        AnarchonError,
        BackendError,
        BackendUnavailable,
        Busy,
        ConfigurationError,
        JobNotFound,
        NotRunning,
        ServerTooOld,
    )
    from .events import StoreEvent
    from .health import Health
    from .instances import Instance
    from .jobs import Job, JobOptions
    from .scheduler import Scheduler
    from .schedules import Cron, Every, Once, RRule, Schedule, either

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "AnarchonError",
    "BackendError",
    "BackendUnavailable",
    "Busy",
    "ConfigurationError",
    "Context",
    "Cron",
    "Duration",
    "Every",
    "Explanation",
    "Health",
    "Instance",
    "Job",
    "JobNotFound",
    "JobOptions",
    "MemoryBackend",
    "NotRunning",
    "Once",
    "PostgresBackend",
    "RRule",
    "RedisBackend",
    "Run",
    "Schedule",
    "Scheduler",
    "ServerTooOld",
    "Signal",
    "SqliteBackend",
    "StoreEvent",
    "cron",
    "either",
    "every",
    "once",
    "rrule",
    "schedule",
]

_HOMES = {
    "_durations": ("Duration",),
    "_runs": ("Run",),
    "_explanations": ("Explanation",),
    "backends.memory": ("MemoryBackend",),
    "backends.redis": ("RedisBackend",),
    "backends.postgres": ("PostgresBackend",),
    "backends.sqlite": ("SqliteBackend",),
    "context": ("Context", "Signal"),
    "decorators": ("cron", "every", "once", "rrule", "schedule"),
    "errors": (
        "Aborted",
        "AnarchonError",
        "BackendError",
        "BackendUnavailable",
        "Busy",
        "ConfigurationError",
        "JobNotFound",
        "NotRunning",
        "ServerTooOld",
    ),
    "events": ("StoreEvent",),
    "health": ("Health",),
    "instances": ("Instance",),
    "jobs": ("Job", "JobOptions"),
    "schedules": ("Cron", "Every", "Once", "RRule", "Schedule", "either"),
    "scheduler": ("Scheduler",),
}


def __getattr__(name: str) -> object:
    """Load a public name; called only for names that are not there yet."""
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
