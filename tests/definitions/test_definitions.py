"""Defining, replacing, removing and registering jobs on a scheduler."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from anarchon._jobs_definitions import Definitions
from anarchon._jobs_options import Defaults
from anarchon._jobs_registry import Registry
from anarchon.errors import ConfigurationError, JobNotFound
from anarchon.jobs import build_job
from anarchon.schedules import Cron, Every, Once
from tests.definitions.host import NOON, SUNSETS, Host, Sunsets, handler, other, refusal

# (method, its arguments after the name, the schedule they make)
FORMS = [
    ("every", ("10s",), Every(10)),
    ("cron", ("0 8 * * 1-5",), Cron("0 8 * * 1-5")),
    ("once", (NOON,), Once("2026-12-01T12:00:00Z")),
    ("schedule", (SUNSETS,), SUNSETS),
]


@pytest.mark.parametrize(("method", "args", "schedule"), FORMS)
def test_with_a_handler_a_definition_chains(method, args, schedule):
    host = Host(max_attempts=9)
    define = getattr(host, method)
    assert define("a", *args, handler) is host
    assert define("b", *args, handler=other, timeout=5) is host
    first, second = host.jobs
    assert (first.name, first.schedule, first.handler) == ("a", schedule, handler)
    assert (first.timeout, first.max_attempts, first.pass_context) == (None, 9, False)
    assert (second.name, second.schedule, second.handler) == ("b", schedule, other)
    assert (second.timeout, second.pass_context) == (5.0, True)
    assert host.told == [("defined", "a"), ("defined", "b")]


@pytest.mark.parametrize(("method", "args", "schedule"), FORMS)
def test_without_a_handler_a_definition_decorates(method, args, schedule):
    host = Host()
    decorate = getattr(host, method)("a", *args, timeout="1m")
    assert host.jobs == ()
    assert decorate(handler) is handler
    assert [(j.name, j.schedule, j.handler, j.timeout) for j in host.jobs] == [
        ("a", schedule, handler, 60.0)
    ]


@pytest.mark.parametrize(("method", "args", "schedule"), FORMS)
def test_a_call_in_place_of_the_function_is_refused(method, args, schedule):
    # BR-128
    host = Host()
    message = refusal(getattr(host, method), "a", *args, handler())
    assert message == (
        "job 'a': the handler None can't be called; pass the function itself, not the result"
        " of a call: pass `do_it`, not `do_it()`"
    )
    assert host.jobs == ()
    assert host.told == []


@pytest.mark.parametrize(
    ("method", "args", "words"),
    [
        ("every", ("10",), "job 'a': interval: '10' is not a duration; write ASCII digits"),
        ("every", (0.05,), "job 'a': interval: 0.05 is too short; give at least \"100ms\""),
        ("cron", ("0 8 * *",), "job 'a': cron expression '0 8 * *': it has 4 fields; write 5"),
        ("cron", ("0 0 30 2 *",), "job 'a': cron expression '0 0 30 2 *': no date ever matches"),
        ("once", (timedelta(1),), "job 'a': one-off time datetime.timedelta(days=1) counts from"),
        ("once", ("2026-12-01T12:00",), "job 'a': one-off time '2026-12-01T12:00' has no offset"),
        ("schedule", ("10s",), "job 'a': '10s' is no schedule; it is an interval, so use every()"),
        ("schedule", (Sunsets,), "job 'a': schedule Sunsets is a class; give an object of it"),
    ],
)
def test_a_bad_schedule_is_refused_in_both_forms(method, args, words):
    host = Host()
    assert refusal(getattr(host, method), "a", *args, handler).startswith(words)
    assert refusal(getattr(host, method), "a", *args).startswith(words)
    assert (host.jobs, host._registry.unapplied()) == ((), [])


@pytest.mark.parametrize(("method", "args", "schedule"), FORMS)
def test_bad_names_and_options_are_refused_in_both_forms(method, args, schedule):
    host = Host()
    for form in ((), (handler,)):
        define = getattr(host, method)
        assert "the name begins or ends with a blank" in refusal(define, " a", *args, *form)
        assert refusal(define, "a", *args, *form, overlap="no").startswith("job 'a': overlap: 'no'")
        assert "did you mean timeout?" in refusal(define, "a", *args, *form, time_out=5)
    assert (host.jobs, host._registry.unapplied()) == ((), [])


# --- zones --------------------------------------------------------------------------------


def test_the_zone_of_a_cron_job_is_its_own_or_the_schedulers_or_utc():
    host = Host(timezone="Europe/Athens")
    host.cron("own", "0 8 * * *", handler, timezone="Asia/Tokyo")
    host.cron("ours", "0 8 * * *", handler)
    Host().cron("utc", "0 8 * * *", handler)
    assert [job.schedule.timezone for job in host.jobs] == ["Asia/Tokyo", "Europe/Athens"]
    plain = Host().cron("utc", "0 8 * * *", handler)
    assert plain.jobs[0].schedule == Cron("0 8 * * *", "UTC")


@pytest.mark.parametrize("zone", ["", "Europe/Atens"])
def test_a_bad_zone_names_the_job(zone):
    words = f"job 'a': timezone: no zone {zone!r} was found"
    assert refusal(Host().cron, "a", "0 8 * * *", handler, timezone=zone).startswith(words)
    assert refusal(Host().once, "a", NOON, handler, timezone=zone).startswith(words)


def test_a_one_off_needs_a_zone_of_its_own():
    host = Host(timezone="Europe/Athens")
    assert "has no offset" in refusal(host.once, "a", "2026-12-01T12:00:00", handler)
    host.once("a", "2026-12-01T12:00:00", handler, timezone="Europe/Athens")
    assert host.jobs[0].schedule == Once("2026-12-01T10:00:00Z")


# --- one name, one job ----------------------------------------------------------------------


def test_a_second_job_of_a_name_is_refused():
    # BR-090
    host = Host().every("sync", 10, handler)
    message = refusal(host.cron, "sync", "0 8 * * *", other)
    assert message == (
        "job 'sync': there is one of this name already, on Every('10s') for"
        " tests.definitions.host.handler; choose another name for tests.definitions.host.other, or"
        " say replace=True if this one is to take the place of that"
    )
    assert refusal(host.every("sync", 20), other) == message
    assert host.jobs[0].handler is handler
    assert host.told == [("defined", "sync")]


def test_names_are_compared_exactly():
    # BR-090, BR-091
    host = Host()
    for name in ("sync", "Sync", "sync:a", "sync:a:b"):
        host.every(name, 10, handler)
    assert host.names == ["sync", "Sync", "sync:a", "sync:a:b"]


def test_replace_takes_the_place_of_a_job():
    host = Host().every("a", 10, handler).every("b", 10, handler)
    host.every("a", 20, other, replace=True).every("c", 5, handler, replace=True)
    assert [(j.name, j.schedule, j.handler) for j in host.jobs] == [
        ("a", Every(20), other),
        ("b", Every(10), handler),
        ("c", Every(5), handler),
    ]
    assert host.told == [("defined", name) for name in "abac"]


def test_a_refused_replacement_leaves_the_job():
    host = Host().every("a", 10, handler)
    before = host.jobs
    refusal(host.every, "a", 20, None, replace=True)
    assert host.jobs is not before
    assert host.jobs == before
    assert host.jobs[0].handler is handler


def test_remove_frees_the_name():
    host = Host().every("a", 10, handler).every("b", 10, handler)
    assert host.remove("a") is True
    assert host.remove("a") is False
    assert host.names == ["b"]
    host.every("a", 10, handler)
    assert host.names == ["b", "a"]
    assert host.told[2:] == [("removed", "a"), ("defined", "a")]


def test_a_disabled_job_is_checked_and_kept():
    host = Host().every("a", 10, handler, enabled=False)
    assert host.jobs[0].enabled is False
    refusal(host.every, "b", 10, None, enabled=False)


# --- asking for a job -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sinc", "no job 'sinc' on this scheduler; did you mean 'sync' or 'sync2'?"),
        ("zzz", "no job 'zzz' on this scheduler; the jobs are ['sync', 'sync2', 'report']"),
    ],
)
def test_an_unknown_job_is_named_with_what_is_near(name, message):
    host = Host().every("sync", 1, handler).every("sync2", 1, handler).every("report", 1, handler)
    assert host._registry.get("report") is host.jobs[2]
    with pytest.raises(JobNotFound) as caught:
        host._registry.get(name)
    assert str(caught.value) == message
    assert isinstance(caught.value, LookupError)


def test_an_unknown_job_of_no_jobs():
    with pytest.raises(JobNotFound, match="no job 'a' on this scheduler; no job is defined"):
        Registry().get("a")


# --- decorators that were forgotten -----------------------------------------------------------


def test_a_decorator_that_was_never_applied_is_remembered():
    host = Host()
    host.every("a", 10)
    host.cron("b", "0 8 * * *")
    host.once("c", NOON)(handler)
    host.schedule("d", Every(5))
    assert host._registry.unapplied() == [
        "@every('a', ...) on Every('10s')",
        "@cron('b', ...) on Cron('0 8 * * *', timezone='UTC')",
        "@schedule('d', ...) on Every('5s')",
    ]


def test_a_decorator_that_was_refused_counts_as_applied():
    host = Host()
    refusal(host.every("a", 10), None)
    assert host._registry.unapplied() == []


def test_a_decorator_applied_twice_defines_one_name_once():
    host = Host()
    decorate = host.every("a", 10)
    decorate(handler)
    assert "there is one of this name already" in refusal(decorate, other)


# --- many threads -------------------------------------------------------------------------------


def test_many_threads_define_and_the_host_hears_it_in_order():
    # BR-093
    host, count = Host(), 40
    wins = []
    barrier = threading.Barrier(4)

    def define(thread):
        barrier.wait()
        for n in range(count):
            host.every(f"own-{thread}-{n}", 10, handler)
            try:
                host.every(f"shared-{n}", 10, handler)
                wins.append(n)
            except ConfigurationError:
                host.remove(f"shared-{n}")

    threads = [threading.Thread(target=define, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(name.startswith("own-") for name in host.names) == 4 * count
    # What the host was told, played back, is what the registry has.
    played: dict[str, None] = {}
    for what, name in host.told:
        if what == "defined":
            assert name not in played
            played[name] = None
        else:
            del played[name]
    assert list(played) == host.names
    assert len(wins) >= count


def test_a_removal_is_told_after_the_definition_it_removes():
    class Slow(Host):
        def _defined(self, job):
            self.remover = threading.Thread(target=self.remove, args=(job.name,))
            self.remover.start()
            # Without an order it would be done long before this ends.
            self.remover.join(timeout=0.2)
            super()._defined(job)

    host = Slow().every("a", 10, handler)
    host.remover.join()
    assert host.told == [("defined", "a"), ("removed", "a")]
    assert host.jobs == ()


def test_the_host_may_define_more_when_it_is_told():
    class Eager(Host):
        def _defined(self, job):
            super()._defined(job)
            if job.name == "a":
                self.every("a2", 10, handler)

    host = Eager().every("a", 10, handler)
    assert host.names == ["a", "a2"]


def test_new_locks_free_a_forked_child():
    host = Host().every("a", 10, handler)
    locked = threading.Thread(target=host._registry.order.acquire)
    locked.start()
    locked.join()
    host._registry.renew_locks()
    host.every("b", 10, handler)
    assert host.names == ["a", "b"]


def test_definitions_without_a_listening_host():
    class Deaf(Definitions):
        def __init__(self):
            self._registry, self._defaults, self._timezone = Registry(), Defaults(), None

    deaf = Deaf().every("a", 10, handler)
    assert deaf.remove("a") is True


def test_a_registry_by_itself():
    registry = Registry()
    job = build_job("a", Every(10), handler, {}, Defaults())
    registry.add(job)
    with pytest.raises(ConfigurationError, match="there is one of this name already"):
        registry.add(job)
    registry.add(job, replace=True)
    assert registry.jobs == (job,)
    assert registry.get("a") is job
    assert (registry.remove("a"), registry.remove("a"), registry.jobs) == (True, False, ())
