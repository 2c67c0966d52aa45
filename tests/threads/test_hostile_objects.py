"""Exceptions and results that break when they are looked at: judged and told all the same."""

from __future__ import annotations

import asyncio
import sys

import pytest

from anarchon import _log_lines, _traces
from anarchon._messages import Ended
from anarchon._texts import LIMIT_BYTES
from anarchon._traces import UNTELLABLE, described, traced
from anarchon.errors import Aborted
from tests.threads.rig import job, running
from tests.threads.test_run_handler import LEASE, abort, raising, run

PARTS = (
    "__class__",
    "__traceback__",
    "__cause__",
    "__context__",
    "__suppress_context__",
    "__notes__",
    "args",
    "__dict__",
    "with_traceback",
)
ERRORS = (RuntimeError, SystemExit, KeyboardInterrupt)


def refusing(*names, error=RuntimeError, base=Exception, of_class=False):
    """Return a class of exceptions of which some attributes raise, or some of the class."""

    def refuse(self):
        raise error("no")

    refused = dict.fromkeys(names, property(refuse))
    if not of_class:
        return type("Refusing", (base,), refused)
    return type("Meta", (type(base),), refused)("Refusing", (base,), {})


class Lazy:
    """A proxy whose object can't be made."""

    @property
    def __class__(self):
        raise RuntimeError("not now")

    def __getattr__(self, name):
        raise RuntimeError("not now")


# --- exceptions ---


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("part", PARTS)
def test_an_exception_is_told_but_for_the_part_that_raises(part, error):
    ended = run(raising(refusing(part, error=error)("out of stock")))
    assert ended.error == "Refusing: out of stock"
    assert "in handler" in ended.traceback
    assert ended.traceback.startswith("Traceback (most recent call last):\n")
    assert ended.traceback.rstrip().endswith("Refusing: out of stock")
    assert not ended.aborted


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("part", ["__name__", "__module__", "__mro__"])
def test_a_class_whose_names_raise_is_named(part, error):
    ended = run(raising(refusing(part, error=error, of_class=True)("out of stock")))
    assert ended.error == "Refusing: out of stock"
    assert "in handler" in ended.traceback
    assert ended.traceback.rstrip().endswith("Refusing: out of stock")


def test_a_text_of_a_class_of_its_own_is_only_a_text():
    class Text(str):
        __slots__ = ()

        def __format__(self, spec):
            raise RuntimeError

        __bool__ = __len__ = __iter__ = __format__

    class Wordy(Exception):
        def __str__(self):
            return Text("out of stock")

    assert run(raising(Wordy())).error == "Wordy: out of stock"


@pytest.mark.parametrize("error", ERRORS)
def test_an_exception_without_a_text_has_its_name_and_traceback(error):
    class Mute(Exception):
        def __str__(self):
            raise error("no words")

    ended = run(raising(Mute()))
    assert ended.error == f"Mute: (no text: its str() raised {error.__name__})"
    assert "in handler" in ended.traceback
    assert _log_lines.error_text(Mute()) == ended.error


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("base", [Aborted, asyncio.CancelledError, ValueError])
def test_whether_it_is_an_abort_is_a_matter_of_its_type_alone(base, error):
    def stops(ctx):
        abort(ctx)
        raise refusing("__class__", error=error, base=base)

    assert run(stops).aborted == (base is not ValueError)


def test_where_there_is_no_memory_for_the_text_something_is_said(monkeypatch):
    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(_traces, "clean", no_memory)
    assert described(ValueError("x")) == (UNTELLABLE, "")


def test_without_the_means_for_a_traceback_the_message_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "traceback", None)
    assert described(ValueError("x")) == ("ValueError: x", "")
    assert traced(ValueError("x")) == ""


def test_a_message_that_fills_the_record_leaves_the_traceback():
    ended = run(raising(ValueError("x" * 1_000_000)))
    assert len(ended.error) <= LIMIT_BYTES
    assert "in handler" in ended.traceback


def test_a_run_that_raises_such_a_thing_ends_and_the_next_one_runs():
    errors = iter([refusing("__class__")("first"), refusing("__name__", of_class=True)("second")])

    def handler(ctx):
        raise next(errors, ZeroDivisionError)

    with running(job("a", handler, 10)) as rig:
        rig.clock.advance("31s")
        assert [run.error for _, run in rig.events("failure")] == [
            "Refusing: first",
            "Refusing: second",
            "ZeroDivisionError",
        ]
        assert rig.engine.stats().running == 0


# --- results ---


def test_a_lazy_proxy_is_a_result_like_any_other():
    assert run(lambda ctx: Lazy()) == Ended(LEASE)

    async def later(ctx):
        return Lazy()

    assert run(later) == Ended(LEASE)


def test_a_result_whose_class_breaks_when_it_is_asked_is_a_result():
    class Meta(type):
        def __getattribute__(cls, name):
            raise RuntimeError(name)

    class Odd(metaclass=Meta):
        pass

    assert run(lambda ctx: Odd()) == Ended(LEASE)


def test_what_an_object_pretends_to_be_is_not_asked():
    asked = []

    class Pretender:
        @property
        def __class__(self):
            asked.append("__class__")
            return type(i for i in ())

        def __getattr__(self, name):
            asked.append(name)

    assert run(lambda ctx: Pretender()) == Ended(LEASE)
    assert asked == []
