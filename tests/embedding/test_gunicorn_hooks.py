"""Gunicorn's hooks by themselves: what they refuse, in which order they call, what they watch."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.contrib.gunicorn import hooks
from anarchon.contrib.uwsgi import attach

ALL = {
    "post_worker_init",
    "worker_int",
    "worker_abort",
    "worker_exit",
    "on_starting",
    "when_ready",
}


@pytest.fixture
def scheduler():
    made = Scheduler(MemoryBackend(), lease="2s")
    yield made
    made.stop(2)


@pytest.mark.parametrize(
    "text", ["", "app", "app:", ":scheduler", "app.py:scheduler()", "my app:scheduler", "a..b:c"]
)
def test_text_that_names_nothing_is_refused(text):
    with pytest.raises(ConfigurationError, match='names no scheduler; write "module:attribute"'):
        hooks(text)


@pytest.mark.parametrize("call", [hooks, attach])
@pytest.mark.parametrize("wrong", [None, 5, object(), Scheduler, b"app:scheduler"])
def test_what_is_no_scheduler_is_refused(call, wrong):
    with pytest.raises(ConfigurationError, match=f"{call.__name__}.*is no scheduler"):
        call(wrong)


def test_a_class_has_a_hint_of_its_own():
    with pytest.raises(ConfigurationError, match="not its class"):
        hooks(Scheduler)


@pytest.mark.parametrize("call", [hooks, attach])
@pytest.mark.parametrize("wrong", ["soon", -1, True, float("nan")])
def test_what_is_no_duration_is_refused(call, wrong, scheduler):
    with pytest.raises(ConfigurationError, match=rf"{call.__name__}\(timeout\)"):
        call(scheduler, timeout=wrong)


def test_a_hook_that_can_not_be_called_is_refused(scheduler):
    with pytest.raises(ConfigurationError, match="can't be called besides ours"):
        hooks(scheduler, own={"worker_exit": "app.worker_exit"})


def test_gunicorn_takes_every_one_of_them(scheduler):
    """It counts their arguments."""
    config = Config()
    made = hooks(scheduler)
    assert set(made) == ALL
    for name, hook in made.items():
        config.set(name, hook)
        assert getattr(config, name) is hook


def until(condition):
    """Wait until something is so, within its time."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("name", ["worker_abort", "worker_int"])
def test_an_abort_waits_for_nothing_and_an_exit_for_the_end(scheduler, name):
    made = hooks(scheduler, timeout=20)
    begun, told, gate, ended = [], [], threading.Event(), []

    def work(ctx):
        begun.append(ctx.attempt)
        told.append(ctx.signal.wait(20))
        gate.wait(20)
        ended.append(ctx.signal.reason)

    scheduler.every("job", "1h", work)
    made[name](None)  # nothing runs yet
    made["worker_exit"](None, None)
    made["post_worker_init"](None)
    until(lambda: begun)
    asked = time.monotonic()
    made[name](None)
    assert time.monotonic() - asked < 5
    until(lambda: told)
    assert (told, ended, scheduler.state) == ([True], [], "stopping")
    gate.set()
    made["worker_exit"](None, None)
    assert (ended, scheduler.state) == (["stop"], "idle")


def test_theirs_come_before_the_start_and_after_the_stop(scheduler):
    said = []

    def note(name):
        return lambda *where: said.append((name, len(where), scheduler.state != "idle"))

    made = hooks(scheduler, own={name: note(name) for name in ALL})
    made["on_starting"](SimpleNamespace(cfg=None))
    made["post_worker_init"](None)
    made["worker_exit"](None, None)
    assert said == [
        ("on_starting", 1, False),
        ("post_worker_init", 1, False),
        ("worker_exit", 2, False),
    ]


def test_what_theirs_raises_before_the_start_keeps_us_from_it(scheduler):
    made = hooks(scheduler, own={"post_worker_init": lambda worker: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        made["post_worker_init"](None)
    assert scheduler.state == "idle"


def test_theirs_come_though_the_stop_is_broken_off(scheduler, monkeypatch):
    """As by SIGABRT, whose handler raises SystemExit wherever the worker is."""
    said = []
    made = hooks(scheduler, own={"worker_exit": lambda *_: said.append("exit")})

    def broken_off(_timeout):
        raise SystemExit(1)

    monkeypatch.setattr(scheduler, "stop", broken_off)
    with pytest.raises(SystemExit):
        made["worker_exit"](None, None)
    assert said == ["exit"]


def test_text_is_imported_by_the_first_who_starts(tmp_path, monkeypatch):
    """A worker that never came so far stops nothing, and imports nothing for that."""
    (tmp_path / "boots_once.py").write_text(
        "from anarchon import MemoryBackend, Scheduler\n"
        "class site:\n    scheduler = Scheduler(MemoryBackend())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = hooks("boots_once:site.scheduler")
    made["worker_int"](None)
    made["worker_exit"](None, None)
    made["post_worker_init"](None)
    import boots_once

    assert boots_once.site.scheduler.state in ("starting", "running")
    made["worker_exit"](None, None)
    assert boots_once.site.scheduler.state == "idle"


def watched(made, **configured):
    """Look at a configuration as the master does when it starts."""
    settings = SimpleNamespace(**(made | configured))
    made["on_starting"](SimpleNamespace(cfg=settings))
    made["when_ready"](SimpleNamespace(cfg=settings))


def test_hidden_hooks_are_warned_about_once(scheduler, caplog):
    watched(hooks(scheduler), worker_exit=print, worker_int=print)
    [text] = caplog.messages
    assert "defines worker_int, worker_exit below hooks()" in text
    assert "no job runs" not in text
    caplog.clear()
    watched(hooks(scheduler), post_worker_init=print)
    [text] = caplog.messages
    assert "no job runs in the workers" in text


def test_hooks_in_their_place_are_not(scheduler, caplog):
    """Nor those of another scheduler in front of them."""
    first = hooks(scheduler)
    watched(first)
    watched(first, **hooks(Scheduler(MemoryBackend()), own=first))
    assert caplog.messages == []
