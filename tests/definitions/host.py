"""A host of definitions that writes down what it is told, and what the tests give it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anarchon._jobs_definitions import Definitions
from anarchon._jobs_options import Defaults
from anarchon._jobs_registry import Registry
from anarchon.errors import ConfigurationError


class Host(Definitions):
    """The least that hosts definitions: it writes down what it is told."""

    def __init__(self, timezone=None, **defaults):
        self._registry = Registry()
        self._defaults = Defaults(**defaults)
        self._timezone = timezone
        self.told = []

    def _defined(self, job):
        assert self._registry.get(job.name) is job
        self.told.append(("defined", job.name))

    def _removed(self, job_name):
        self.told.append(("removed", job_name))

    @property
    def jobs(self):
        return self._registry.jobs

    @property
    def names(self):
        return [job.name for job in self.jobs]


def handler(): ...
def other(ctx): ...


def refusal(make, *args, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(*args, **options)
    return str(caught.value)


class Sunsets:
    def next_after(self, t):
        return None

    def latest(self, t):
        return None


SUNSETS = Sunsets()
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
