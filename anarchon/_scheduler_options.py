"""The options of a scheduler, checked once when it is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._durations import check_askable, duration_text, parse_ms, shown
from ._listening import is_async, refuses
from ._named import NamedTuple
from ._values import (
    Limits,
)
from .backends.base import ClaimBackend, LeaseBackend
from .errors import ConfigurationError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from ._messages import Settings
    from .jobs import Job

LEAST_LEASE_MS = 2000
LEAST_HEARTBEAT_MS = 100
LEAST_CONTROL_MS = 100
MOST_WORKERS = 10_000
_LONGEST_NAME = 200
# A heartbeat of hours doesn't make it sensible to wait for minutes for an answer.
_LONGEST_QUICK = 10.0
_LONGEST_CALL = 20.0
_LEAST_CALL = 0.2
# What `timeout=None` comes to where a number is needed: ten years.
NO_LIMIT_SECONDS = 315_360_000.0


class Options(NamedTuple):
    """What a scheduler was made with, apart from the defaults of its jobs."""

    backend: ClaimBackend
    lease_ms: int
    heartbeat_ms: int
    workers: int
    around: Callable[[Any], Any] | None
    enabled: bool
    instance_id: str | None
    log: bool | logging.Logger
    stop_on_exit: bool
    exit_seconds: float
    control_ms: int | None = None

    @property
    def logger(self) -> logging.Logger:
        """The logger that gets the lines."""
        from ._log_lines import LOGGER

        return LOGGER if isinstance(self.log, bool) else self.log

    @property
    def limits(self) -> Limits:
        """How long store calls may take."""
        heartbeat = self.heartbeat_ms / 1000
        return Limits(
            quick=min(max(heartbeat / 5, _LEAST_CALL), _LONGEST_QUICK),
            call=min(max(heartbeat * 0.4, _LEAST_CALL), _LONGEST_CALL),
        )

    def settings(self, instance_id: str) -> Settings:
        """Return what the core runs with."""
        from ._messages import Settings

        return Settings(
            lease=self.lease_ms / 1000,
            heartbeat=self.heartbeat_ms / 1000,
            workers=self.workers,
            instance_id=instance_id,
            leases=isinstance(self.backend, LeaseBackend),
            control=None if self.control_ms is None else self.control_ms / 1000,
        )

    def instance_id_now(self) -> str:
        """Return the name of this instance for people: as given, or ``host:pid``."""
        if self.instance_id is not None:
            return self.instance_id
        import socket

        return f"{socket.gethostname()}:{os.getpid()}"


def check_options(backend: object, **raw: Any) -> Options:
    """Return the options; raises `ConfigurationError` naming the one that is wrong."""
    for name, value in {"backend": backend, **raw}.items():
        check_askable(value, name)
    if raw["timezone"] is not None:
        from ._schedules_wall import load_zone

        load_zone(raw["timezone"])
    lease_ms = parse_ms(raw["lease"], what="lease", minimum_ms=LEAST_LEASE_MS)
    return Options(
        backend=_backend(backend),
        lease_ms=lease_ms,
        heartbeat_ms=_heartbeat_ms(raw["heartbeat"], lease_ms),
        workers=_workers(raw["workers"]),
        around=_around(raw["around"]),
        enabled=check_truth(raw["enabled"], "enabled"),
        instance_id=_instance_id(raw["instance_id"]),
        log=_log(raw["log"]),
        stop_on_exit=check_truth(raw["stop_on_exit"], "stop_on_exit"),
        exit_seconds=parse_ms(raw["exit_timeout"], what="exit_timeout") / 1000,
        control_ms=_control_ms(raw["control"], backend),
    )


def check_watched(job: Job, backend: ClaimBackend) -> None:
    """Raise `ConfigurationError` for a job whose slots nobody could tell of on this store."""
    if job.expect_within is not None and not isinstance(backend, LeaseBackend):
        raise ConfigurationError(
            f"job {job.name!r}: expect_within: {shown(backend)} keeps no leases, so that no one"
            " instance can be found that tells; leave expect_within at None"
        )


def limit_seconds(value: object, what: str) -> float:
    """Return a time limit in seconds; None stands for no limit."""
    return NO_LIMIT_SECONDS if value is None else parse_ms(value, what=what) / 1000


def _backend(backend: object) -> ClaimBackend:
    if isinstance(backend, ClaimBackend):
        return backend
    hint = "give an instance" if isinstance(backend, type) else "give a backend"
    raise ConfigurationError(
        f"backend: {shown(backend)} is no backend; {hint}, such as"
        ' SqliteBackend("jobs.db") or MemoryBackend()'
    )


def _heartbeat_ms(heartbeat: object, lease_ms: int) -> int:
    if heartbeat is None:
        return lease_ms // 3
    ms = parse_ms(heartbeat, what="heartbeat", minimum_ms=LEAST_HEARTBEAT_MS)
    if lease_ms < 3 * ms:
        raise ConfigurationError(
            f"heartbeat: {shown(heartbeat)} fits less than three times into the lease of"
            f' "{duration_text(lease_ms)}", so one late renewal would lose a run; give at most'
            f' "{duration_text(lease_ms // 3)}", or a longer lease'
        )
    return ms


def _control_ms(control: object, backend: object) -> int | None:
    if control is None:
        return None
    ms = parse_ms(control, what="control", minimum_ms=LEAST_CONTROL_MS, allow_zero=False)
    if isinstance(backend, ClaimBackend) and not isinstance(backend, LeaseBackend):
        raise ConfigurationError(
            f"control: {shown(backend)} keeps no leases, so nothing can be asked of the fleet"
            " through it; leave control at None"
        )
    return ms


def _workers(workers: object) -> int:
    if isinstance(workers, int) and not isinstance(workers, bool) and 1 <= workers <= MOST_WORKERS:
        return workers
    raise ConfigurationError(
        f"workers: {shown(workers)} is not a number of handlers that may run at once here;"
        f" give an int from 1 to {MOST_WORKERS}"
    )


def _around(around: Any) -> Callable[[Any], Any] | None:
    if around is None:
        return None
    if callable(around) and not is_async(around) and refuses(around, 1) is None:
        return around  # type: ignore[no-any-return]
    raise ConfigurationError(
        f"around: {shown(around)} is no function that takes the context of a run and returns a"
        " context manager; decorate a generator function with contextlib.contextmanager"
    )


def check_truth(value: object, what: str) -> bool:
    """Return a bool; raises `ConfigurationError` for anything else."""
    check_askable(value, what)
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"{what}: {shown(value)} is neither True nor False; give one of them")


def _instance_id(instance_id: object) -> str | None:
    if instance_id is None:
        return None
    good = isinstance(instance_id, str) and 1 <= len(instance_id) <= _LONGEST_NAME
    if isinstance(instance_id, str) and good and instance_id.isprintable():
        return instance_id
    raise ConfigurationError(
        f"instance_id: {shown(instance_id)} is no name; give 1 to {_LONGEST_NAME} printable"
        " characters, or None for host:pid"
    )


def _log(log: object) -> bool | logging.Logger:
    if isinstance(log, bool):
        return log
    import logging

    if isinstance(log, logging.Logger):
        return log
    raise ConfigurationError(
        f"log: {shown(log)} is neither True, False nor a logging.Logger; give one of them"
    )
