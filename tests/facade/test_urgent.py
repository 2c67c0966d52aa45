"""What can't wait is done at once, however many definitions are waiting."""

from __future__ import annotations

import threading
import time

import pytest

from anarchon import _lifecycle_exits
from anarchon._backlog import Backlog
from anarchon._core import Core
from anarchon._jobs_registry import Registry
from anarchon._lifecycle_dues import GivenJobs
from anarchon._lifecycle_requests import MOST_CHANGES as MOST_IN_LIFE
from anarchon._messages import RunNow, Stop, Tick
from anarchon._threads_changes import MOST_CHANGES
from tests.facade.helpers import PATIENCE_SECONDS, SOON, until

MANY = 20 * MOST_CHANGES


def define(scheduler, many=MANY, prefix="job"):
    for n in range(many):
        scheduler.every(f"{prefix}-{n}", "1h", lambda: None, catch_up=0)


class Held:
    """Holds whoever calls a method for a job, until `go_on` is set; counts the calls."""

    def __init__(self, monkeypatch, owner, method, name_of):
        self.names, self.entered, self.go_on = [], threading.Event(), threading.Event()
        original = getattr(owner, method)

        def held(host, *args):
            self.names.append(name_of(args))
            self.entered.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
            return original(host, *args)

        monkeypatch.setattr(owner, method, held)

    def hold_at(self, scheduler):
        define(scheduler, 1, "first")
        assert self.entered.wait(PATIENCE_SECONDS)


@pytest.fixture
def held_life(monkeypatch):
    return Held(monkeypatch, GivenJobs, "_keep", lambda args: args[1])


@pytest.fixture
def held_core(monkeypatch):
    return Held(monkeypatch, Core, "add", lambda args: args[0].name)


@pytest.fixture
def taken(monkeypatch):
    """What the core has taken: a list of the types of its inputs."""
    kinds, handle = [], Core.handle

    def watched(core, message, now):
        kinds.append(type(message))
        return handle(core, message, now)

    monkeypatch.setattr(Core, "handle", watched)
    return kinds


def stop_by_call(scheduler):
    scheduler.stop(20)


def stop_at_exit(_scheduler):
    _lifecycle_exits.stop_all()


@pytest.mark.parametrize("stop", [stop_by_call, stop_at_exit])
def test_a_stop_does_not_stand_behind_definitions(make, held_life, stop):
    scheduler = make(exit_timeout=20)
    scheduler.start()
    held_life.hold_at(scheduler)
    define(scheduler)
    stopping = threading.Thread(target=stop, args=(scheduler,))
    inbox = scheduler._life().inbox._queue
    before = inbox.qsize()
    stopping.start()
    until(lambda: inbox.qsize() > before)
    held_life.go_on.set()
    stopping.join(PATIENCE_SECONDS)
    assert scheduler.state == "idle"
    assert len(held_life.names) <= 2 * MOST_IN_LIFE


def test_a_stop_does_not_stand_behind_definitions_in_the_engine(make, held_core):
    scheduler = make()
    scheduler.start()
    held_core.hold_at(scheduler)
    define(scheduler)
    life = scheduler._life()
    until(lambda: len(life._jobs._given) == MANY + 1)
    scheduler_inbox = life.engine._inbox
    before = scheduler_inbox.qsize()
    stopping = threading.Thread(target=scheduler.stop, args=(20,))
    stopping.start()
    until(lambda: scheduler_inbox.qsize() > before)
    held_core.go_on.set()
    stopping.join(PATIENCE_SECONDS)
    assert scheduler.state == "idle"
    assert len(held_core.names) <= 2 * MOST_CHANGES


def test_a_run_by_hand_does_not_stand_behind_definitions(make, held_life, held_core, taken):
    """It takes its own job in first, in the life and in the engine."""
    scheduler, runs = make(), []
    scheduler.start()
    held_life.hold_at(scheduler)
    define(scheduler)
    calling = threading.Thread(target=lambda: runs.append(scheduler.run_now(f"job-{MANY - 1}")))
    inbox = scheduler._life().inbox._queue
    before = inbox.qsize()
    calling.start()
    until(lambda: inbox.qsize() > before)
    held_life.go_on.set()
    held_core.go_on.set()
    calling.join(PATIENCE_SECONDS)
    assert [run.status for run in runs] == ["success"]
    assert f"job-{MANY - 1}" in held_life.names[: 2 * MOST_IN_LIFE]
    assert f"job-{MANY - 1}" in held_core.names[: 2 * MOST_CHANGES + 2]
    assert RunNow in taken


def test_a_flood_of_definitions_costs_nothing_that_grows(make, monkeypatch, taken):
    """Neither are all jobs looked at for each, nor is there a tick for each."""
    scheduler, looks = make(), []
    scheduler.every("tick", "100ms", lambda: None)
    scheduler.start()
    monkeypatch.setattr(Registry, "jobs", property(lambda _: looks.append(1) or ()))
    define(scheduler)
    core = scheduler._life().engine._loop._core
    until(lambda: len(core._specs) == MANY + 1)
    assert looks == []
    assert taken.count(Tick) < MANY
    began = time.monotonic()
    scheduler.stop(20)
    assert time.monotonic() - began < SOON
    assert (scheduler.state, taken.count(Stop)) == ("idle", 1)


def test_what_is_defined_while_it_opens_is_taken_in_as_well(make, held_core):
    """Those that were there before, those that came, and none that went meanwhile."""
    scheduler = make()
    define(scheduler, 3 * MOST_CHANGES, "old")
    held_core.go_on.set()
    scheduler.start()
    define(scheduler, 3 * MOST_CHANGES, "new")
    scheduler.remove("old-0")
    core = scheduler._life().engine._loop._core
    wanted = {job.name for job in scheduler.jobs}
    until(lambda: set(core._specs) == wanted)
    assert len(wanted) == 6 * MOST_CHANGES - 1


def test_of_a_job_only_the_newest_definition_is_taken_in(make, held_core):
    scheduler, ran = make(), []
    scheduler.start()
    held_core.hold_at(scheduler)
    for n in range(50):
        scheduler.every("job", "1h", lambda n=n: ran.append(n), catch_up=0, replace=True)
    scheduler.every("gone", "1h", lambda: None)
    scheduler.remove("gone")
    held_core.go_on.set()
    scheduler.run_now("job")
    scheduler.run_now("first-0")
    assert ran == [49]
    until(lambda: set(scheduler._life().engine._loop._core._specs) == {"first-0", "job"})


# --- the backlog by itself ---


def test_a_backlog_wakes_its_reader_once_and_keeps_the_order():
    woken = []
    backlog = Backlog(lambda: woken.append(1))
    for n in range(10):
        backlog.put(str(n), n)
    backlog.put("3", 33)
    assert woken == [1]
    assert backlog.pop("5") == 5
    assert backlog.pop("5") is None
    assert backlog.take(6) == [0, 1, 2, 33, 4]
    assert woken == [1, 1], "there is more"
    assert backlog.take(100) == [6, 7, 8, 9]
    assert backlog.take(100) == []
    backlog.put("a", 1)
    assert woken == [1, 1, 1]


def test_a_backlog_loses_nothing_that_comes_while_it_is_read():
    backlog = Backlog(lambda: None)
    backlog._wake = lambda: taken.extend(backlog.take(1))  # the reader comes at once
    taken = []
    for n in range(5):
        backlog.put(str(n), n)
    assert taken == [0, 1, 2, 3, 4]


def test_a_backlog_drops_what_was_replaced_only_when_it_is_itself_again():
    woken = []
    backlog = Backlog(lambda: woken.append(1))

    class Item:
        def __del__(self):
            backlog.put("after", 1)
            woken.append(len(backlog.take(10)))

    backlog.put("name", Item())
    backlog.put("name", 2)
    assert woken == [1, 2]
    assert backlog.take(10) == []
