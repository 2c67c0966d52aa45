"""Objects that break when they are asked what they are are refused, whatever they are given for."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, Cron, Every, MemoryBackend, Once, RRule, Scheduler

TIME = datetime(2026, 1, 1, tzinfo=UTC)


class Lazy:
    """A proxy of something that can't be made."""

    @property
    def __class__(self):
        raise RuntimeError("not now")

    def __getattr__(self, name):
        raise RuntimeError("not now")


class Mute(Lazy):
    def __repr__(self):
        raise RuntimeError("not now")


def parameters(function, *but):
    return [name for name in inspect.signature(function).parameters if name not in but]


def scheduler(**options):
    return Scheduler(MemoryBackend(), **options)


OPTIONS = {
    f"Scheduler({name})": lambda lazy, name=name: scheduler(**{name: lazy})
    for name in parameters(Scheduler, "backend", "data")
}
JOB_OPTIONS = {
    f"every({name})": lambda lazy, name=name: scheduler().every(
        "job", "1s", lambda: None, **{name: lazy}
    )
    for name in (
        *("overlap", "timeout", "max_attempts", "catch_up", "jitter", "on_crash", "tags"),
        *("expect_within", "pass_context", "replace", "enabled", "description"),
    )
}
OTHERS = {
    "backend": Scheduler,
    "name": lambda lazy: scheduler().every(lazy, "1s", lambda: None),
    "handler": lambda lazy: scheduler().every("job", "1s", lazy),
    "interval": lambda lazy: scheduler().every("job", lazy, lambda: None),
    "expression": lambda lazy: scheduler().cron("job", lazy, lambda: None),
    "zone": lambda lazy: scheduler().cron("job", "@daily", lambda: None, timezone=lazy),
    "time": lambda lazy: scheduler().once("job", lazy, lambda: None),
    "recurrence": lambda lazy: scheduler().rrule("job", lazy, lambda: None),
    "schedule": lambda lazy: scheduler().schedule("job", lazy, lambda: None),
    "register": lambda lazy: scheduler().register(lazy),
    "remove": lambda lazy: scheduler().remove(lazy),
    "event": lambda lazy: scheduler().on(lazy),
    "listener": lambda lazy: scheduler().on("success", lazy),
    "retry": lambda lazy: scheduler().start(retry=lazy),
    "timeout of stop": lambda lazy: scheduler().stop(lazy),
    "timeout of wait": lambda lazy: scheduler().wait(lazy),
    "run_now": lambda lazy: scheduler().run_now(lazy),
    "history of": lambda lazy: scheduler().history(lazy),
    "limit": lambda lazy: scheduler().history(limit=lazy),
    "before": lambda lazy: scheduler().history(before=lazy),
    "status": lambda lazy: scheduler().history(status=lazy),
    "next_slots": lambda lazy: scheduler().next_slots(lazy),
    "Every": Every,
    "Cron": Cron,
    "Once": Once,
    "RRule": RRule,
    "between": lambda lazy: Every("1s").between(lazy, TIME),
    "except_on": lambda lazy: Every("1s").except_on(lazy),
    "a day of except_on": lambda lazy: Every("1s").except_on([lazy]),
    "next_after": lambda lazy: Every("1s").next_after(lazy),
}
PLACES = {**OPTIONS, **JOB_OPTIONS, **OTHERS}


@pytest.mark.parametrize("kind", [Lazy, Mute])
@pytest.mark.parametrize("place", PLACES)
def test_it_is_refused_by_name(place, kind):
    with pytest.raises(ConfigurationError) as refused:
        PLACES[place](kind())
    assert kind.__name__ in str(refused.value)


def test_it_may_be_the_data_of_a_job_which_are_never_looked_at():
    lazy = Lazy()
    (job,) = scheduler(data=Lazy()).every("job", "1s", lambda: None, data=lazy).jobs
    assert job.data is lazy


def test_the_message_says_what_asking_raised():
    with pytest.raises(ConfigurationError, match=r"workers: .*Lazy.* \(RuntimeError: not now\)"):
        scheduler(workers=Lazy())
