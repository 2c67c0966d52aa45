"""The context of a handler and its signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from datetime import UTC, datetime, timedelta

import pytest

from anarchon._clock import Clock
from anarchon._messages import (
    JobSpec,
    StartRun,
)
from anarchon._signal import Signal, Switch
from anarchon._values import (
    Lease,
    RunKey,
    Terms,
)
from anarchon.context import Context
from anarchon.errors import Aborted, ConfigurationError
from tests.threads.rig import Every


@pytest.fixture
def switch():
    switch = Switch(Clock())
    switch.bind()
    return switch


@pytest.fixture
def signal(switch):
    return Signal(switch)


def elsewhere(fn):
    """Call a function on another thread and return what it returned or raised."""
    out = []

    def call():
        try:
            out.append(fn())
        except BaseException as error:
            out.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(5)
    return out[0]


def test_a_signal_is_an_event(signal, switch):
    assert isinstance(signal, threading.Event)
    assert not signal.is_set()
    assert not signal.aborted
    assert signal.reason is None
    assert signal.wait(0) is False
    switch.abort(signal, "stop")
    assert signal.is_set()
    assert signal.aborted
    assert signal.reason == "stop"
    assert signal.wait() is True


def test_the_first_reason_stays(signal, switch):
    switch.abort(signal, "timeout")
    switch.abort(signal, "stop")
    assert signal.reason == "timeout"


@pytest.mark.parametrize("call", [Signal.set, Signal.clear])
def test_only_the_scheduler_moves_a_signal(signal, call):
    with pytest.raises(TypeError):
        call(signal)
    assert not signal.is_set()


def test_raise_if_aborted(signal, switch):
    signal.raise_if_aborted()
    switch.abort(signal, "cancel")
    with pytest.raises(Aborted) as raised:
        signal.raise_if_aborted()
    assert raised.value.reason == "cancel"


def test_sleep_ends_by_itself(signal):
    began = time.monotonic()
    assert signal.sleep("20ms") is None
    signal.sleep(timedelta(milliseconds=5))
    signal.sleep(0)
    assert time.monotonic() - began >= 0.02


def test_sleep_ends_with_an_abort(signal, switch):
    threading.Timer(0.02, switch.abort, (signal, "lost")).start()
    with pytest.raises(Aborted) as raised:
        signal.sleep("1h")
    assert raised.value.reason == "lost"
    with pytest.raises(Aborted):
        signal.sleep(0)


@pytest.mark.parametrize("duration", ["soon", -1, float("nan"), True, None])
def test_sleep_refuses_what_is_no_duration(signal, duration):
    with pytest.raises(ConfigurationError, match="sleep"):
        signal.sleep(duration)


def test_on_another_thread_an_abort_is_an_ordinary_error(signal, switch):
    assert elsewhere(signal.raise_if_aborted) is None
    assert elsewhere(lambda: signal.sleep("1ms")) is None
    switch.abort(signal, "stop")
    for call in (signal.raise_if_aborted, lambda: signal.sleep("1h")):
        assert isinstance(elsewhere(call), RuntimeError)
    assert elsewhere(lambda: signal.wait(5)) is True


def test_where_an_event_loop_runs_an_abort_is_an_ordinary_error(signal, switch):
    async def ask():
        with pytest.raises(RuntimeError, match=r"asyncio\.sleep"):
            signal.sleep(0)
        signal.raise_if_aborted()
        switch.abort(signal, "stop")
        with pytest.raises(RuntimeError, match="cancelled instead"):
            signal.raise_if_aborted()

    asyncio.run(ask())


# --- on_abort ---


def test_on_abort_is_called_once_on_a_thread_of_its_own(signal, switch):
    called = []
    with signal.on_abort(lambda: called.append(threading.current_thread().name)):
        assert called == []
        switch.abort(signal, "stop")
        switch.abort(signal, "stop")
    assert called == ["anarchon-abort"]


def test_on_abort_is_called_when_the_signal_had_aborted_before(signal, switch):
    called = []
    switch.abort(signal, "stop")
    with signal.on_abort(lambda: called.append(1)):
        pass
    assert called == [1]


def test_on_abort_is_never_called_after_the_block(signal, switch):
    called = []
    with signal.on_abort(lambda: called.append(1)):
        pass
    assert switch._hooks == []
    switch.abort(signal, "stop")
    assert called == []
    assert not [t for t in threading.enumerate() if t.name == "anarchon-abort"]


def test_leaving_the_block_waits_for_the_function(signal, switch):
    began, may_end, ended = threading.Event(), threading.Event(), []

    def slow():
        began.set()
        may_end.wait(5)
        ended.append(1)

    with signal.on_abort(slow):
        switch.abort(signal, "stop")
        assert began.wait(5)
        threading.Timer(0.02, may_end.set).start()
    assert ended == [1]


def test_what_on_abort_raises_is_logged(signal, switch, caplog):
    def fail():
        raise SystemExit("no")

    with caplog.at_level(logging.ERROR, "anarchon"), signal.on_abort(fail):
        switch.abort(signal, "stop")
    assert "SystemExit: no" in caplog.text


def test_an_exception_in_the_block_comes_through(signal, switch):
    called = []
    with pytest.raises(ValueError, match="x"), signal.on_abort(lambda: called.append(1)):
        raise ValueError("x")
    switch.abort(signal, "stop")
    assert called == []


def test_blocks_nest_and_each_is_entered_once(signal, switch):
    called = []
    inner = signal.on_abort(lambda: called.append("inner"))
    with signal.on_abort(lambda: called.append("outer")):
        with inner:
            switch.abort(signal, "stop")
        with pytest.raises(RuntimeError), inner:
            pass
    assert sorted(called) == ["inner", "outer"]


def test_on_abort_wants_a_function(signal):
    with pytest.raises(TypeError, match="NoneType"):
        signal.on_abort(None)


# --- the context ---


def context(*, manual="", attempt=1, checkpoint=None):
    lease = Lease(RunKey("job", 1_800_000_000_000, manual), attempt)
    spec = JobSpec("job", Every(10_000), Terms(6000, 1000, 3, True, 0), 0.02, None)
    start = StartRun(lease, "manual" if manual else "takeover", 77, checkpoint, spec)
    return Context(start, "me", Switch(Clock()), {"a": 1})


def test_what_the_context_tells():
    ctx = context(attempt=4)
    assert (ctx.name, ctx.slot, ctx.attempt) == ("job", 1_800_000_000_000, 4)
    assert ctx.scheduled_at == datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert (ctx.reason, ctx.manual, ctx.fence) == ("takeover", False, 77)
    assert (ctx.instance_id, ctx.data) == ("me", {"a": 1})
    assert ctx.previous_slot == ctx.slot - 10_000
    assert context(manual="m").manual


def test_both_show_what_they_are(signal, switch):
    assert repr(signal) == "<Signal not aborted>"
    switch.abort(signal, "lost")
    assert repr(signal) == "<Signal aborted: lost>"
    assert repr(context()) == "<Context job @ 2027-01-15T08:00:00+00:00, attempt 1, takeover>"


def test_a_checkpoint_is_what_was_saved():
    assert context().checkpoint is None
    assert context(checkpoint='{"page": 3}').checkpoint == {"page": 3}


def test_a_context_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        ctx = context()
        with ctx.signal.on_abort(lambda: None):
            ctx.signal.wait(0)
        watch = weakref.ref(ctx.signal)
        del ctx
        assert watch() is None
    finally:
        gc.enable()
