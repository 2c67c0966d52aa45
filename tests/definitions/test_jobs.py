"""Jobs: names, options, the scheduler's own defaults, and the form of the core."""

from __future__ import annotations

import dataclasses
import json
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon._jobs_options import Defaults, make_defaults, naming
from anarchon._values import Terms
from anarchon.errors import AnarchonError, ConfigurationError
from anarchon.jobs import Job, build_job, spec_of
from anarchon.schedules import Cron, Every


def handler(): ...


def job(name="sync", defaults=None, **options):
    return build_job(name, Every(10), handler, options, defaults or Defaults())


def refusal(make, *args, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(*args, **options)
    return str(caught.value)


# --- names ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *["a", "a:b:c:d:e:f", "a b", "ä/日本", "%s{}*?[]", "..", "'\"`;--", "\\", "x" * 200, "🙂"],
        *["Sync", "sync", "a@1", "a\u0301"],
    ],
)
def test_a_name_is_kept_exactly(name):
    # BR-091
    assert job(name).name == name


def test_a_name_of_another_text_type_becomes_plain():
    class Name(str):
        __slots__ = ()

        def __str__(self):
            return "other"

    made = job(Name("sync"))
    assert type(made.name) is str
    assert made.name == "sync"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "job '': the name has 0 characters; give 1 to 200"),
        ("x" * 201, "the name has 201 characters; give 1 to 200"),
        (" sync", "job ' sync': the name begins or ends with a blank; remove it"),
        ("sync ", "the name begins or ends with a blank; remove it"),
        ("sync\u3000", "the name begins or ends with a blank; remove it"),
        ("sync\n", "the name begins or ends with a blank; remove it"),
        ("a\nb", r"job 'a\nb': the name contains '\n', which can't be printed; remove it"),
        ("a\0b", r"the name contains '\x00', which can't be printed; remove it"),
        ("a\tb", r"the name contains '\t', which can't be printed; remove it"),
        ("a\u200fb", r"the name contains '\u200f', which can't be printed; remove it"),
        ("a\ud800b", r"the name contains '\ud800', which can't be printed; remove it"),
        ("a\u00a0b", r"the name contains '\xa0', which can't be printed; remove it"),
        (None, "job None: the name is not text; give the name first"),
        (b"sync", "job b'sync': the name is not text; give the name first"),
        (handler, "the name is not text; give the name first"),
    ],
)
def test_what_is_no_name(name, words):
    # BR-091
    assert words in refusal(job, name)


@given(st.text(max_size=250))
def test_any_text_is_a_name_or_refused(name):
    good = 1 <= len(name) <= 200 and name.strip() == name and name.isprintable()
    if good:
        assert job(name).name == name
    else:
        assert refusal(job, name).startswith("job ")


# --- options ----------------------------------------------------------------------------


def test_without_options_a_job_has_the_usual_ones():
    made = job()
    assert made == Job("sync", Every(10), handler)
    assert made.to_dict() == {
        "name": "sync",
        "schedule": "Every('10s')",
        "overlap": "skip",
        "timeout": None,
        "max_attempts": 3,
        "catch_up": 3600.0,
        "jitter": 0.02,
        "on_crash": "takeover",
        "expect_within": None,
        "pass_context": False,
        "enabled": True,
        "description": "",
        "tags": [],
    }
    assert make_defaults() == Defaults()


def test_every_option_is_kept():
    data = object()
    made = job(
        overlap="allow",
        timeout="1m",
        max_attempts=5,
        catch_up=timedelta(hours=2),
        jitter=0,
        data=data,
        on_crash="abandon",
        expect_within="5m",
        pass_context=None,
        replace=True,
        enabled=False,
        description="Copies customers.",
        tags=["nightly", "mail"],
    )
    assert made.data is data
    assert made.to_dict() == {
        "name": "sync",
        "schedule": "Every('10s')",
        "overlap": "allow",
        "timeout": 60.0,
        "max_attempts": 5,
        "catch_up": 7200.0,
        "jitter": 0.0,
        "on_crash": "abandon",
        "expect_within": 300.0,
        "pass_context": False,
        "enabled": False,
        "description": "Copies customers.",
        "tags": ["nightly", "mail"],
    }
    assert json.loads(json.dumps(made.to_dict())) == made.to_dict()


def test_defaults_are_the_schedulers_and_a_job_may_say_otherwise():
    defaults = make_defaults(
        overlap="allow",
        timeout="1m",
        max_attempts=7,
        catch_up=0,
        jitter="50ms",
        data="all",
        on_crash="abandon",
    )
    assert defaults == Defaults("allow", 60.0, 7, 0.0, 0.05, "all", "abandon")
    made = job(defaults=defaults)
    assert all(getattr(made, name) == value for name, value in defaults._asdict().items())
    other = job(defaults=defaults, timeout=None, data=None, catch_up=5, overlap="skip")
    assert (other.timeout, other.data, other.catch_up, other.overlap) == (None, None, 5.0, "skip")
    assert (other.max_attempts, other.jitter, other.on_crash) == (7, 0.05, "abandon")


OPTION_REFUSALS = [
    ("overlap", "queue", """overlap: 'queue' is not known; give "skip" or "allow\""""),
    ("overlap", False, """overlap: False is not known; give "skip" or "allow\""""),
    ("overlap", None, "overlap: None is not known"),
    ("overlap", ["skip"], "overlap: ['skip'] is not known"),
    ("on_crash", "retry", """on_crash: 'retry' is not known; give "takeover" or "abandon\""""),
    ("timeout", 0, "timeout: 0 is no time at all; give None for no limit"),
    ("timeout", "0s", "timeout: '0s' is no time at all; give None for no limit"),
    ("timeout", -1, "timeout: -1 is negative; give seconds (10 or 0.5), a timedelta, or text"),
    ("timeout", True, "timeout: True is not a duration; give seconds"),
    ("timeout", float("nan"), "timeout: nan is not a number; give seconds"),
    ("timeout", float("inf"), "timeout: inf is more than 100 years; give a shorter time"),
    ("timeout", 10**12, "timeout: 1000000000000 is more than 100 years; give a shorter time"),
    ("timeout", "ten", "timeout: 'ten' is not a duration; write ASCII digits and a unit"),
    ("catch_up", None, "catch_up: None is not a duration; give seconds"),
    ("catch_up", 10**12, "catch_up: 1000000000000 is more than 100 years"),
    ("jitter", None, "jitter: None is not a duration; give seconds"),
    ("jitter", -0.01, "jitter: -0.01 is negative; give seconds"),
    ("max_attempts", 0, "max_attempts: 0 is not a number of attempts; give 1 to 1000000"),
    ("max_attempts", -1, "max_attempts: -1 is not a number of attempts"),
    ("max_attempts", True, "max_attempts: True is not a number of attempts"),
    ("max_attempts", 3.0, "max_attempts: 3.0 is not a number of attempts"),
    ("max_attempts", None, "max_attempts: None is not a number of attempts"),
    (
        "max_attempts",
        10**30,
        f"max_attempts: {10**30} is not a number of attempts; give 1 to 1000000",
    ),
]
JOB_REFUSALS = [
    ("expect_within", 0, "expect_within: 0 is no time at all; give None for no limit"),
    ("expect_within", "soon", "expect_within: 'soon' is not a duration"),
    (
        "timezone",
        "UTC",
        "unknown option 'timezone'; an interval has none, and a schedule object has its own",
    ),
    ("pass_context", 1, "pass_context: 1 is not a bool; give True or False"),
    ("replace", "yes", "replace: 'yes' is not a bool; give True or False"),
    ("enabled", 0, "enabled: 0 is not a bool; give True or False"),
    ("enabled", None, "enabled: None is not a bool; give True or False"),
    ("description", None, "description: None is not text; give a str"),
    ("tags", "nightly", """tags: 'nightly' is not a list of words; give ["nightly", "mail"]"""),
    ("tags", None, "tags: None is not a list of words"),
    ("tags", {"a": 1}, "tags: {'a': 1} is not a list of words"),
    ("tags", ["a", 5], "tags: 5 is not text; give a str"),
    ("tags", {"a", 5}, "tags: 5 is not text; give a str"),
    ("timeuot", 5, "unknown option 'timeuot'; did you mean timeout?"),
    ("args", [1], "unknown option 'args'; give functools.partial(function, ...) as the handler"),
    ("kwargs", {}, "unknown option 'kwargs'; give functools.partial(function, ...)"),
    ("bogus", 5, "unknown option 'bogus'; the options are overlap, timeout, max_attempts,"),
]


@pytest.mark.parametrize(("option", "value", "words"), [*OPTION_REFUSALS, *JOB_REFUSALS])
def test_what_is_no_option_of_a_job(option, value, words):
    # BR-125
    message = refusal(job, **{option: value})
    assert message.startswith(f"job 'sync': {words}")


@pytest.mark.parametrize(("option", "value", "words"), OPTION_REFUSALS)
def test_what_is_no_default_of_a_scheduler(option, value, words):
    # BR-125
    assert refusal(make_defaults, **{option: value}).startswith(words)


def test_tags_of_a_set_have_an_order():
    assert job(tags={"c", "a", "b"}).tags == ("a", "b", "c")
    assert job(tags=("c", "a")).tags == ("c", "a")


def test_a_schedule_is_checked_as_well():
    message = refusal(build_job, "sync", "10s", handler, {}, Defaults())
    assert message.startswith("job 'sync': schedule '10s' has no next_after(t) and latest(t)")


# --- the value --------------------------------------------------------------------------


def test_a_job_is_frozen():
    made = job()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"
    with pytest.raises((AttributeError, TypeError)):
        made.colour = "red"


def test_handler_and_data_are_no_part_of_its_value_or_text():
    one = build_job("sync", Every(10), handler, {"data": "secret"}, Defaults())
    other = build_job("sync", Every("10s"), lambda: None, {"data": [1]}, Defaults())
    assert one == other
    assert hash(one) == hash(other)
    assert one != job(timeout=5)
    assert "secret" not in repr(one)
    assert "handler" not in repr(one)
    assert "secret" not in json.dumps(one.to_dict())


def test_a_job_with_its_own_function_can_be_pickled():
    assert pickle.loads(pickle.dumps(job())) == job()


def test_data_is_never_touched():
    # BR-126
    class Untouchable:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

        def __repr__(self):
            raise AssertionError

    data = Untouchable()
    made = job(data=data)
    assert made.data is data
    assert hash(made) == hash(job())
    assert made == job()
    repr(made)


# --- the form of the core -----------------------------------------------------------------


def test_a_job_in_the_form_of_the_core():
    made = job(timeout=5, jitter="30ms", catch_up="90s", max_attempts=4)
    spec = spec_of(made, lease_ms=30_000, heartbeat_ms=10_000)
    assert spec.terms == Terms(30_000, 10_000, 4, skip_overlap=True, catch_up_ms=90_000)
    assert (spec.name, spec.jitter, spec.timeout) == ("sync", 0.03, 5.0)
    assert spec.schedule is made.schedule
    assert spec.job is made


def test_abandon_is_a_budget_of_none():
    made = job(on_crash="abandon", overlap="allow", max_attempts=4)
    terms = spec_of(made, lease_ms=2000, heartbeat_ms=500).terms
    assert (terms.budget, terms.skip_overlap) == (0, False)


@given(st.integers(0, 10**10))
def test_no_millisecond_is_lost_on_the_way(ms):
    made = job(catch_up=timedelta(milliseconds=ms))
    assert spec_of(made, lease_ms=1, heartbeat_ms=1).terms.catch_up_ms == ms


def test_a_users_schedule_is_adapted_for_the_core():
    class Never:
        def next_after(self, t):
            return None

        def latest(self, t):
            return None

    made = build_job("sync", Never(), handler, {}, Defaults())
    assert isinstance(made.schedule, Never)
    assert spec_of(made, lease_ms=1, heartbeat_ms=1).schedule.next_after_ms(0) is None


# --- the name in front of a message -----------------------------------------------------------


def test_errors_of_ours_get_the_name_and_others_do_not():
    with pytest.raises(ConfigurationError) as caught, naming("sync"):
        Cron("5")
    assert str(caught.value).startswith("job 'sync': cron expression '5': it has 1 field;")
    assert caught.value.__cause__ is None
    with pytest.raises(AnarchonError) as other, naming("sync"):
        raise AnarchonError("plain")
    assert str(other.value) == "plain"
    with pytest.raises(KeyError), naming("sync"):
        raise KeyError
