"""The decorators that only declare."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta

import pytest

from anarchon.decorators import cron, declarations, every, once, schedule
from anarchon.errors import ConfigurationError
from anarchon.schedules import Cron, Every, Once

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def refusal(make, *args, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(*args, **options)
    return str(caught.value)


def names(function) -> list[str]:
    return [declaration.name for declaration in declarations(function)]


def test_the_function_is_returned_unchanged():
    def sync(ctx):
        return ctx

    for decorator in (
        every("a", 10),
        cron("b", "@daily"),
        once("c", NOON),
        schedule("d", Every(5)),
    ):
        assert decorator(sync) is sync
    assert sync(5) == 5


def test_several_declarations_in_the_order_of_the_text():
    @every("a", "10s", timeout=5)
    @cron("b", "0 8 * * *", timezone="Asia/Tokyo")
    @once("c", "2026-12-01T12:00:00", timezone="UTC")
    @schedule("d", Every(5))
    def sync(): ...

    found = declarations(sync)
    assert [d.name for d in found] == ["a", "b", "c", "d"]
    assert [d.number for d in found] == sorted(d.number for d in found)
    assert [d.schedule for d in found] == [
        Every(10),
        Cron("0 8 * * *", "Asia/Tokyo"),
        Once(NOON),
        Every(5),
    ]
    assert found[0].options == {"timeout": 5}


@pytest.mark.parametrize("wrap", [staticmethod, classmethod])
def test_a_wrapped_method_above_and_below(wrap):
    def below(): ...

    above = every("a", 10)(wrap(below))
    assert isinstance(above, wrap)
    assert names(above) == names(below) == ["a"]


def test_nothing_is_declared_on_others():
    for value in (None, 5, len, object(), names, type, functools.partial(names)):
        assert declarations(value) == ()


def test_an_object_that_answers_to_every_name_declares_nothing():
    class Proxy:
        def __getattr__(self, name):
            return ("anything",)

    assert declarations(Proxy()) == ()


def test_a_partial_and_a_callable_object_can_carry_declarations():
    class Call:
        def __call__(self): ...

    part, call = functools.partial(names, 1), Call()
    every("a", 10)(part)
    every("b", 10)(call)
    assert names(part) == ["a"]
    assert names(call) == ["b"]


def test_the_zone_is_the_schedulers_only_where_none_is_given():
    def f(): ...

    cron("a", "0 8 * * *")(f)
    cron("b", "0 8 * * *", timezone="UTC")(f)
    every("c", 10)(f)
    theirs, own, interval = sorted(declarations(f))
    assert theirs.schedule_in(None) == Cron("0 8 * * *", "UTC")
    assert theirs.schedule_in("Asia/Tokyo") == Cron("0 8 * * *", "Asia/Tokyo")
    assert own.schedule_in("Asia/Tokyo") == Cron("0 8 * * *", "UTC")
    assert interval.schedule_in("Asia/Tokyo") == Every(10)


@pytest.mark.parametrize(
    ("make", "args", "words"),
    [
        (every, ("10",), "job 'a': interval: '10' is not a duration"),
        (cron, ("0 8 * *",), "job 'a': cron expression '0 8 * *': it has 4 fields"),
        (once, (timedelta(1),), "job 'a': one-off time datetime.timedelta(days=1) counts from now"),
        (schedule, ("10s",), "job 'a': '10s' is no schedule; it is an interval, so use every()"),
    ],
)
def test_a_bad_schedule_is_refused_at_once(make, args, words):
    assert refusal(make, "a", *args).startswith(words)


@pytest.mark.parametrize(
    ("make", "args"),
    [(every, (10,)), (cron, ("@daily",)), (once, (NOON,)), (schedule, (Every(10),))],
)
def test_a_bad_name_or_option_is_refused_at_once(make, args):
    assert "the name begins or ends with a blank" in refusal(make, "a ", *args)
    assert "the name is not text; give the name first" in refusal(make, 5, *args)
    assert refusal(make, "a", *args, jitter=-1).startswith("job 'a': jitter: -1 is negative")
    assert "did you mean jitter?" in refusal(make, "a", *args, jiter=1)


def test_a_bad_zone_is_refused_at_once():
    words = "job 'a': timezone: no zone 'x' was found"
    assert refusal(cron, "a", "@daily", timezone="x").startswith(words)
    assert refusal(once, "a", NOON, timezone="x").startswith(words)


def test_what_can_not_be_decorated():
    decorate = every("a", 10)
    assert "is a class; pass a method" in refusal(decorate, Every)
    assert "can't be called" in refusal(decorate, None)
    assert "can't carry a declaration; decorate a function that calls it" in refusal(decorate, len)
    assert "is a generator function" in refusal(decorate, lambda: (yield))
    assert "is a generator function" in refusal(decorate, staticmethod(lambda: (yield)))
