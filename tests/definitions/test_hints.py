"""What is mixed up in a definition is refused with a hint at what was meant."""

from __future__ import annotations

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
    listed = set(anarchon.JobOptions.__annotations__) - {"expect_within"}
    for every in (anarchon.every, anarchon.Scheduler.every):
        assert listed <= set(every.__doc__.replace("``", " ").split())


def test_modules_list_their_public_names_and_no_others():
    import anarchon.testing

    for module in (anarchon, anarchon.testing):
        shown = [name for name in dir(module) if not name.startswith("__")]
        assert shown == sorted(module.__all__)
        assert "__doc__" in dir(module)
