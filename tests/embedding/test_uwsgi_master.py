"""What is done by what the module `uwsgi` says; the real one is in test_uwsgi.py."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.contrib.uwsgi import attach


def uwsgi(*, master=100, worker=0, mule=0, **more):
    return SimpleNamespace(
        masterpid=lambda: master, worker_id=lambda: worker, mule_id=lambda: mule, **more
    )


@pytest.mark.parametrize("module", [uwsgi(), uwsgi(i_am_the_spooler=lambda: False)])
def test_the_master_is_refused(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    scheduler = Scheduler(MemoryBackend())
    for start in (scheduler.start, scheduler.run, lambda: scheduler.start(retry=True)):
        with pytest.raises(ConfigurationError, match="master of uWSGI"):
            start()
        assert scheduler.state == "idle"


@pytest.mark.parametrize(
    "module",
    [
        uwsgi(worker=1),
        uwsgi(mule=1),
        uwsgi(i_am_the_spooler=lambda: True),
        uwsgi(master=0),
        SimpleNamespace(),  # something else of that name
    ],
    ids=["worker", "mule", "spooler", "no master", "another module"],
)
def test_whoever_else_starts_may(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    with Scheduler(MemoryBackend()) as scheduler:
        assert scheduler.state == "running"


def test_its_end_stops_the_scheduler_and_calls_what_was_there(monkeypatch):
    scheduler, said = Scheduler(MemoryBackend()), []
    module = uwsgi(worker=1, opt={"threads": b"2"}, atexit=lambda: said.append(scheduler.state))
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    assert attach(scheduler) is True
    assert scheduler.state in ("starting", "running")
    module.atexit()
    assert scheduler.state == "idle"
    assert said == ["idle"]


def test_in_the_master_it_waits_for_the_fork(monkeypatch):
    """Who sets a hook before is called first; without uwsgidecorators as well."""
    scheduler, said = Scheduler(MemoryBackend()), []
    number = [0]
    module = uwsgi(opt={"enable-threads": True}, post_fork_hook=lambda: said.append(number[0]))
    module.worker_id = lambda: number[0]
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
    assert attach(scheduler) is True
    module.post_fork_hook()  # in a mule or a spooler
    assert scheduler.state == "idle"
    number[0] = 2
    module.post_fork_hook()
    assert scheduler.state in ("starting", "running")
    module.atexit()
    assert said == [0, 2]


def failing(said, what):
    def fail():
        said.append(what)
        raise ValueError(what)

    return fail


@pytest.mark.parametrize("has_decorators", [False, True])
def test_what_another_hook_raises_keeps_nothing_from_being_called(has_decorators, monkeypatch):
    """Neither the scheduler nor what `uwsgidecorators` is to call; uWSGI logs what is raised."""
    scheduler, said = Scheduler(MemoryBackend()), []
    module = uwsgi(opt={"threads": True}, post_fork_hook=failing(said, "set"))
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
    if has_decorators:
        import_decorators(monkeypatch, module, failing(said, "decorated"))
    attach(scheduler)
    module.worker_id = lambda: 1
    raised = "decorated" if has_decorators else "set"
    with pytest.raises(ValueError, match=raised):
        module.post_fork_hook()
    assert said == ["set", "decorated"][: 1 + has_decorators]
    assert scheduler.state in ("starting", "running")
    module.atexit()


def import_decorators(monkeypatch, module, hook):
    """Have the import of `uwsgidecorators` put a hook in the place of any other, as it does."""

    def find_module(name):
        if name == "uwsgidecorators":
            module.post_fork_hook = hook
        return sys.modules[name]

    monkeypatch.setattr("anarchon.contrib.uwsgi.import_module", find_module)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_scheduler_that_can_not_start_keeps_no_other_from_it(lazy, monkeypatch, caplog):
    """Nor, where the application is imported in the worker, the application from being served."""
    broken, well = Scheduler(MemoryBackend()), Scheduler(MemoryBackend())
    module = uwsgi(worker=int(lazy), opt={"threads": True})
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
    monkeypatch.setattr(broken, "start", lambda **_: failing([], "no threads")())
    assert [attach(one) for one in (broken, well)] == [True, True]
    if not lazy:
        module.worker_id = lambda: 1
        module.post_fork_hook()
    assert well.state in ("starting", "running")
    [told] = caplog.messages
    assert told.startswith("a scheduler could not start in this worker")
    assert "ValueError: no threads" in told
    module.atexit()
    assert well.state == "idle"


@pytest.mark.parametrize("options", [{}, {"enable-threads": True}, {"threads": b"4"}])
def test_threads_that_are_not_enabled_are_warned_about(options, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "uwsgi", uwsgi(opt=options))
    monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
    attach(Scheduler(MemoryBackend()))
    assert [("enable-threads = true" in text) for text in caplog.messages] == [True] * (not options)
