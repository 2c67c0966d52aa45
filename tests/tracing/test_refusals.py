"""What can't be watched is refused; a missing package is named by its extra."""

from __future__ import annotations

import sys

import pytest

from anarchon import ConfigurationError, Scheduler
from anarchon.contrib.opentelemetry import instrument
from anarchon.contrib.ping import ping
from anarchon.contrib.sentry import report

WATCH = {
    "instrument()": instrument,
    "report()": report,
    "ping()": lambda scheduler: ping(scheduler, {}),
}
EXTRAS = {"instrument()": ("opentelemetry", "opentelemetry"), "report()": ("sentry_sdk", "sentry")}


@pytest.mark.parametrize("what", WATCH)
def test_what_is_no_scheduler(what):
    with pytest.raises(ConfigurationError, match="its class") as raised:
        WATCH[what](Scheduler)
    assert str(raised.value).startswith(what)


@pytest.mark.parametrize("what", WATCH)
def test_a_scheduler_that_runs_already(what, make):
    scheduler = make()
    with scheduler, pytest.raises(ConfigurationError, match=r"running already.*before start\(\)"):
        WATCH[what](scheduler)


@pytest.mark.parametrize("what", WATCH)
def test_the_same_scheduler_twice(what, make):
    scheduler = make()
    WATCH[what](scheduler)
    listeners = list(scheduler._listeners._all)
    with pytest.raises(ConfigurationError, match="told of twice"):
        WATCH[what](scheduler)
    assert scheduler._listeners._all == listeners


@pytest.mark.parametrize("what", WATCH)
def test_of_schedulers_that_share_their_listeners_the_latest_counts(what, make):
    """As the apps of a Flask factory do; events would be told of twice."""
    one, two = make(), make()
    WATCH[what](one)
    count = len(one._listeners._all)
    two._listeners = one._listeners
    WATCH[what](two)
    assert len(two._listeners._all) == count
    watchers = [fn.__self__.scheduler for _, fn in two._listeners._all]
    assert set(watchers) == {two}


@pytest.mark.parametrize("what", EXTRAS)
def test_without_its_package_the_error_names_the_extra(what, make, monkeypatch):
    package, extra = EXTRAS[what]
    for name in list(sys.modules):
        if name.split(".")[0] == package or name.startswith(f"anarchon.contrib._{extra}_"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'anarchon\[{extra}\]'"):
        WATCH[what](make())
