"""What is mixed up in a definition is refused with a hint at what was meant."""

from __future__ import annotations

import functools
import inspect
import pydoc

import pytest

import anarchon
from anarchon import decorators
from tests.definitions.host import NOON, SUNSETS, Host, handler, refusal

FORMS = ["every", "cron", "once", "schedule"]
FIRST = "the name comes first, then the "


@pytest.mark.parametrize("host", [Host(), decorators])
@pytest.mark.parametrize(
    ("form", "given", "hint"),
    [
        ("every", ("10s", handler), f"{FIRST}interval, then the function: every("),
        ("cron", ("0 8 * * *", handler), f"{FIRST}expression, then the function: cron("),
        ("once", (NOON.isoformat(), handler), f"{FIRST}time, then the function: once("),
        ("schedule", ("sun", handler), f"{FIRST}schedule, then the function: schedule("),
        ("every", ("10s", "sync"), f"'sync' is no interval; {FIRST}interval"),
        ("cron", ("0 8 * * *", "sync"), f"'sync' is no expression; {FIRST}expression"),
        ("every", ("sync", "*/5 * * * *"), "it is a cron expression, so use cron()"),
        ("every", ("sync", "@hourly"), "it is a cron expression, so use cron()"),
        ("every", ("sync", NOON.isoformat()), "it is an instant, so use once()"),
        ("cron", ("sync", "10s"), "'10s' is no expression; it is an interval, so use every()"),
        ("once", ("sync", "1h"), "it is an interval, so use every()"),
        ("every", (10, "sync"), "job 10: the name is not text; give the name first, then the"),
    ],
)
def test_arguments_in_the_wrong_place(host, form, given, hint):
    assert hint in refusal(getattr(host, form), *given)


def test_what_is_only_wrong_keeps_its_message():
    assert refusal(Host().every, "sync", "10 s").startswith(
        "job 'sync': interval: '10 s' is not a duration; write ASCII digits"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("host", [Host(), decorators])
def test_a_decorator_without_parentheses(host, form):
    message = refusal(getattr(host, form), handler)
    assert message.startswith(f"@{form} was put above <function handler at ")
    assert f"write @{form}(" in message


@pytest.mark.parametrize("form", [*FORMS, "rrule"])
@pytest.mark.parametrize("host", [Host(), decorators])
def test_a_name_or_a_schedule_that_is_missing(host, form):
    define = getattr(host, form)
    parameter = next(iter(list(inspect.signature(define).parameters)[1:]))
    message = refusal(define, "foo")
    assert message.startswith(f"{form}('foo') has no ")
    assert f"; write {form}(" in message
    assert message.split(";")[0] == refusal(define, "foo", timeout=3).split(";")[0]
    assert refusal(define, timeout=3).startswith(f"{form}() has no name and no ")
    assert refusal(define, **{parameter: "10s"}).startswith(f"{form}() has no name: ")
    assert refusal(define, name="foo").startswith(f"{form}() has no ")


@pytest.mark.parametrize("form", [*FORMS, "rrule"])
@pytest.mark.parametrize("a_handler", [handler, functools.partial(handler)])
def test_a_handler_for_what_only_declares(form, a_handler):
    declare = getattr(decorators, form)
    message = refusal(declare, "foo", "10s", a_handler)
    assert message.startswith(f"{form}() of anarchon declares a job on the function below it")
    assert f"write @{form}(" in message
    assert f": scheduler.{form}(" in message
    assert refusal(declare, "foo", "10s", handler=a_handler) == message
    assert refusal(declare, "foo", "10s", handler=None) == message


@pytest.mark.parametrize(
    ("host", "given", "places"),
    [
        (Host(), (handler, "Europe/Athens"), "name, expression, handler"),
        (decorators, ("Europe/Athens",), "name, expression"),
    ],
)
def test_what_has_to_be_given_by_its_name(host, given, places):
    message = refusal(host.cron, "foo", "@daily", *given)
    assert f"was given {2 + len(given)} arguments without their names" in message
    assert f"; only {places} go without" in message


@pytest.mark.parametrize("host", [Host(), decorators])
def test_all_options_that_are_unknown_are_told(host):
    assert refusal(host.every, "sync", "10s", timout=3, overlap="skip", jiter=2, args=[]) == (
        "job 'sync': unknown options 'timout' (did you mean timeout?), 'jiter' (did you mean"
        " jitter?), 'args' (give functools.partial(function, ...) as the handler, or data= for"
        " ctx.data)"
    )


@pytest.mark.parametrize("host", [Host(), decorators])
@pytest.mark.parametrize(("form", "given"), [("every", "10s"), ("schedule", SUNSETS)])
def test_intervals_have_no_zone(host, form, given):
    assert refusal(getattr(host, form), "sync", given, timezone="Europe/Athens") == (
        "job 'sync': unknown option 'timezone'; an interval has none, and a schedule object has its"
        " own: Cron(expression, timezone=...); use cron() for wall times"
    )


def test_help_shows_what_may_be_left_out_and_which_options_there_are():
    signature = str(inspect.signature(anarchon.Scheduler.every))
    assert signature.startswith(
        "(self, name: 'str', interval: 'Duration', handler: 'Handler' = ..."
    )
    for method in ("every", "cron", "once", "schedule", "on", "run_now", "submit"):
        assert "object at 0x" not in pydoc.render_doc(getattr(anarchon.Scheduler, method))
    listed = set(anarchon.JobOptions.__annotations__)
    for every in (anarchon.every, anarchon.Scheduler.every):
        assert listed <= set(every.__doc__.replace("``", " ").split())


def test_modules_list_their_public_names_and_no_others():
    import anarchon.testing

    for module in (anarchon, anarchon.testing):
        shown = [name for name in dir(module) if not name.startswith("__")]
        assert shown == sorted(module.__all__)
        assert "__doc__" in dir(module)
