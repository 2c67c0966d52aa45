"""Definitions where somebody's code comes in between: `__del__`, `__repr__`, signal handlers."""

from __future__ import annotations

import itertools
import signal
import threading

import pytest

from anarchon import Every, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import ConfigurationError
from tests.definitions.host import Host, handler
from tests.strikes import everywhere

SOON = 5.0


def in_time(call):
    """Call something that a deadlock would keep for ever; return what it raised."""
    raised = []

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "it waits for itself"
    return raised


class Poller:
    """Its handler is the only thing that keeps it; with it goes another job."""

    def __init__(self, host):
        self.host = host

    def poll(self): ...

    def __del__(self):
        self.host.remove("old")
        self.host.every("new", "1h", handler, replace=True)


def by_removal(host):
    host.remove("poll")


def by_replacement(host):
    host.every("poll", "1h", handler, replace=True)


@pytest.mark.parametrize("let_go", [by_removal, by_replacement])
def test_an_object_that_goes_with_its_job_may_define_and_remove(let_go):
    host = Host().every("old", "1h", handler)
    host.every("poll", "1h", Poller(host).poll)
    assert in_time(lambda: let_go(host)) == []
    assert "old" not in host.names
    assert host.names[-1] == "new"
    assert host.told[-3][1] == "poll", "what it set off comes after it"


@pytest.mark.parametrize("let_go", [by_removal, by_replacement])
def test_no_other_thread_waits_for_an_object_that_goes(let_go):
    """`order` is free by then, so what goes may wait for who needs it."""
    host = Host()
    helped = []

    class Waiting:
        def poll(self): ...

        def __del__(self):
            helper = threading.Thread(target=lambda: host.every("helped", "1h", handler))
            helper.start()
            helper.join(SOON)
            helped.append(helper.is_alive())

    host.every("poll", "1h", Waiting().poll)
    let_go(host)
    assert helped == [False]


def test_the_text_of_a_schedule_in_the_way_may_define():
    host = Host().every("old", "1h", handler)

    class Telling:
        def next_after(self, t): ...
        def latest(self, t): ...

        def __repr__(self):
            helper = threading.Thread(target=lambda: host.remove("old"))
            helper.start()
            helper.join(SOON)
            return f"Telling({helper.is_alive()})"

    host.schedule("told", Telling(), handler)
    with pytest.raises(ConfigurationError, match=r"already, on Telling\(False\)"):
        host.every("told", "1h", handler)


def test_a_signal_handler_may_define_and_remove_wherever_it_comes_in():
    host, calls = Scheduler(MemoryBackend()), itertools.count()

    def strike():
        host.remove("zz")
        host.every("zz", "1h", handler)
        host.cron("forgotten", "0 8 * * *")

    def call(strike):
        nth = next(calls)
        with strike:
            host.every(f"job-{nth}", "1h", handler)
            host.remove("zz")
            host.every("same", "1h", handler, replace=True)
            host.remove(f"job-{nth - 1}")
            host.every(f"decorated-{nth}", "1h")(handler)
        assert host.jobs

    places = []
    assert in_time(lambda: places.extend(everywhere(call, strike))) == []
    assert any(place.startswith("Registry.add_all") for place in places)
    names = [job.name for job in host.jobs]
    assert len(names) == len(set(names))
    assert {f"decorated-{n}" for n in range(len(places))} <= set(names)
    assert len(host._registry.unapplied()) == len(places)


def test_a_real_signal_handler_may_define_while_the_main_thread_does():
    host, before = Scheduler(MemoryBackend()), signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: host.every("zz", "1h", handler, replace=True))
    over = threading.Event()

    def storm():
        while not over.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    storming = threading.Thread(target=storm)
    storming.start()
    try:
        for n in range(300):
            host.every(f"job-{n}", "1h", handler)
            host.remove("zz")
    finally:
        over.set()
        storming.join()
        signal.signal(signal.SIGUSR1, before)
    assert {f"job-{n}" for n in range(300)} <= {job.name for job in host.jobs}


def test_jobs_can_be_listed_while_they_come_and_go():
    host, over, raised = Host(), threading.Event(), []

    def look():
        while not over.is_set():
            try:
                assert len(host.jobs) <= 300
                host._registry.unapplied()
            except RuntimeError as error:
                raised.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for n in range(300):
        host.schedule(f"job-{n}", Every(10), handler)
        host.every("forgotten", 10)
    for n in range(300):
        host.remove(f"job-{n}")
    over.set()
    looking.join()
    assert raised == []


def test_all_of_an_object_or_nothing_is_defined_in_the_place_of_others():
    """Told when all are there; the first of them was in nobody's way."""
    from anarchon import every

    class Two:
        @every("a", 10)
        def a(self): ...

        @every("b", 10)
        def b(self): ...

    host = Host().every("b", 10, handler)
    with pytest.raises(ConfigurationError, match="job 'b': there is one"):
        host.register(Two())
    assert (host.names, host.told) == (["b"], [("defined", "b")])
