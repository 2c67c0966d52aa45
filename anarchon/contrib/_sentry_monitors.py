"""Cron monitors of Sentry: which jobs have one, and what Sentry is told of their schedules."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .._durations import check_askable, shown
from .._named import NamedTuple
from .._schedules_cron import _ALIASES
from ..errors import ConfigurationError
from ..schedules import Cron, Every
from ._identity import identity_of

if TYPE_CHECKING:
    from ..backends.base import ClaimBackend
    from ..jobs import Job

_LONGEST_SLUG = 50
_FIELDS = 5
_MINUTE_MS = 60_000
# The largest unit that the interval is whole in.
_UNITS = (("day", 1440), ("hour", 60), ("minute", 1))


class Monitor(NamedTuple):
    """The monitor of a job; without a configuration, somebody has to make it in Sentry."""

    slug: str
    config: dict[str, Any] | None


class Monitors:
    """Says which jobs have a monitor.

    Raises:
        ConfigurationError: That is neither True, False, names nor a mapping of names.
    """

    def __init__(self, given: object) -> None:
        check_askable(given, "report(monitors)")
        is_names = isinstance(given, Collection) and not isinstance(given, str | bytes)
        if not (isinstance(given, bool) or is_names):
            raise ConfigurationError(
                f"report(monitors): {shown(given)} names no jobs; give a list of names, a dict of"
                " names and settings, or True for every job"
            )
        self._all = given is True
        self._more: dict[str, dict[str, Any]] = {}
        for name in given if isinstance(given, Collection) else ():
            more = given[name] if isinstance(given, Mapping) else {}
            self._more.update([_settings(name, more)])

    @property
    def names(self) -> tuple[str, ...]:
        """The jobs that were named."""
        return tuple(self._more)

    def of(self, job: Job) -> Monitor | None:
        """Return the monitor of a job, or None."""
        config = config_of(job)
        if job.name not in self._more and not (self._all and config):
            return None
        more = dict(self._more.get(job.name, {}))
        slug = more.pop("slug", None) or slug_of(job.name)
        return Monitor(slug, {**config, **more} if config or "schedule" in more else None)


def _settings(name: object, more: object) -> tuple[str, dict[str, Any]]:
    if isinstance(name, str) and isinstance(more, Mapping):
        return name, dict(more)
    raise ConfigurationError(
        f"report(monitors): {shown(name)} with {shown(more)} is no name of a job with settings"
        ' of its monitor; write for example {"digest": {"max_runtime": 60}}'
    )


def slug_of(name: str) -> str:
    """Return a job's name as Sentry takes it: small letters, digits, ``-`` and ``_``."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    if slug and len(slug) <= _LONGEST_SLUG:
        return slug
    digest = blake2b(name.encode(errors="backslashreplace"), digest_size=4).hexdigest()
    return f"{slug[: _LONGEST_SLUG - len(digest) - 1]}-{digest}".strip("-")


def config_of(job: Job) -> dict[str, Any]:
    """Return the configuration of a job's monitor; {} where Sentry doesn't know such schedules."""
    schedule = job.schedule
    if isinstance(schedule, Cron):
        text = _ALIASES.get(schedule.expression.lower(), schedule.expression).replace("?", "*")
        if len(text.split()) != _FIELDS:
            return {}
        config: dict[str, Any] = {
            "schedule": {"type": "crontab", "value": text},
            "timezone": schedule.timezone,
        }
    elif isinstance(schedule, Every) and schedule.period_ms % _MINUTE_MS == 0:
        minutes = schedule.period_ms // _MINUTE_MS
        unit, size = next((unit, size) for unit, size in _UNITS if minutes % size == 0)
        config = {"schedule": {"type": "interval", "value": minutes // size, "unit": unit}}
    else:
        return {}
    if job.timeout is not None:
        config["max_runtime"] = max(1, math.ceil(job.timeout / 60))
    return config


def check_in_id_of(backend: ClaimBackend, run_id: str) -> str:
    """Return the id of the check-in of a run: one for all attempts, on whichever instance."""
    data = identity_of(backend, [run_id])
    return UUID(bytes=blake2b(data, digest_size=16).digest(), version=4).hex
