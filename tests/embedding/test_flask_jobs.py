"""Jobs of a Flask app: defined on the extension, for one app or for several."""

from __future__ import annotations

import pytest
from flask import Flask

from anarchon import (
    ConfigurationError,
    Cron,
    MemoryBackend,
    Once,
    RRule,
    Scheduler,
    cron,
    every,
)
from anarchon.contrib.flask import Anarchon
from tests.embedding.flask_apps import OPTIONS, make_app

RULE = "DTSTART:20260101T090000\nRRULE:FREQ=DAILY"
NINE = "Cron('0 9 * * *', timezone='UTC')"


class Reports:
    @every("sync", "10s", timeout="3s")
    def sync(self):
        """Sync."""

    @cron("digest", "0 8 * * *")
    def digest(self):
        """Write a digest."""


def define(jobs: Anarchon) -> None:
    """Define a job in every form."""

    @jobs.every("decorated", "10s")
    def decorated():
        """Do nothing."""

    chained = jobs.every("every", "10s", decorated, jitter=1).cron("cron", "0 8 * * *", decorated)
    assert chained is jobs
    jobs.cron("in Rome", "0 8 * * *", decorated, timezone="Europe/Rome")
    jobs.cron("in UTC", "0 8 * * *", decorated, timezone="UTC")
    jobs.rrule("rrule", RULE, decorated)
    jobs.rrule("rrule in UTC", RULE.replace("T090000", "T090000Z"), decorated)
    jobs.once("once", "2099-01-01T00:00Z", decorated, data=jobs)
    jobs.schedule("schedule", Cron("0 9 * * *"), decorated)
    jobs.register(Reports(), prefix="r.")


@pytest.mark.parametrize("sooner", [True, False])
def test_jobs_before_and_after_init_app_are_those_of_the_scheduler(sooner):
    """With its defaults and its zone, which the config has and the definitions haven't."""
    options = {**OPTIONS, "timezone": "Europe/Athens", "jitter": 2, "timeout": "5s"}
    app, jobs = make_app(ANARCHON_OPTIONS=options), Anarchon()
    if sooner:
        define(jobs)
    jobs.init_app(app)
    if not sooner:
        define(jobs)
    there = Scheduler(MemoryBackend(), **options)
    define(there)
    found = {job.name: job.to_dict() for job in app.extensions["anarchon"].jobs}
    assert found == {job.name: job.to_dict() for job in there.jobs}
    schedules = {job.name: job.schedule for job in app.extensions["anarchon"].jobs}
    assert schedules == {job.name: job.schedule for job in there.jobs}
    assert schedules["cron"] == Cron("0 8 * * *", "Europe/Athens")
    assert schedules["in UTC"] == Cron("0 8 * * *", "UTC")
    assert schedules["rrule"] == RRule(RULE, "Europe/Athens")
    assert schedules["once"] == Once("2099-01-01T00:00Z")
    data = {job.name: job.data for job in app.extensions["anarchon"].jobs}
    assert data["once"] is jobs


def test_what_is_wrong_is_refused_where_it_is_defined():
    jobs = Anarchon()
    with pytest.raises(ConfigurationError, match="job 'sync': interval"):
        jobs.every("sync", "1ms", print)
    jobs.every("sync", "1h", lambda: None)
    with pytest.raises(ConfigurationError, match="job 'sync': there is one of this name already"):
        jobs.cron("sync", "0 8 * * *", lambda: None)
    with pytest.raises(ConfigurationError, match="job 'sync': there is one of this name already"):
        jobs.register(Reports())
    jobs.every("sync", "2h", lambda: None, replace=True)
    jobs.init_app(make_app())
    with pytest.raises(ConfigurationError, match="job 'sync': there is one of this name already"):
        jobs.every("sync", "3h", lambda: None)
    assert [str(job.schedule) for job in jobs.scheduler.jobs] == ["Every('2h')"]


def names_in(*schedulers: Scheduler) -> list[list[str]]:
    return [[job.name for job in scheduler.jobs] for scheduler in schedulers]


def in_next_app(jobs: Anarchon) -> dict[str, str]:
    """Return what another app gets: the schedules of its jobs."""
    jobs.init_app(app := make_app("next"))
    return {job.name: str(job.schedule) for job in app.extensions["anarchon"].jobs}


def test_what_the_scheduler_refuses_is_nowhere_afterwards():
    """Its names are taken though the extension doesn't have them; a register is all or nothing."""
    jobs = Anarchon(make_app()).every("mine", "1h", lambda: None)
    jobs.scheduler.every("digest", "1h", lambda: None)
    for define in (
        lambda: jobs.every("digest", "2h", lambda: None),
        lambda: jobs.every("digest", "2h")(lambda: None),
        lambda: jobs.register(Reports()),
        lambda: jobs.register(Reports, prefix="a "),
    ):
        with pytest.raises(ConfigurationError):
            define()
        assert names_in(jobs.scheduler) == [["mine", "digest"]]
    assert in_next_app(jobs) == {"mine": "Every('1h')"}


def test_a_register_that_is_refused_keeps_what_a_factory_had_defined():
    jobs = Anarchon(make_app("first"))
    jobs.register(Reports())
    jobs.init_app(make_app("second"))
    jobs.cron("digest", "0 9 * * *", lambda: None)
    with pytest.raises(ConfigurationError, match="job 'digest': there is one"):
        jobs.register(Reports())
    assert names_in(jobs.scheduler) == [["sync", "digest"]]
    assert in_next_app(jobs) == {"sync": "Every('10s')", "digest": NINE}


def test_a_name_twice_in_one_register_is_refused_in_each_app():
    class Twice(Reports):
        @every("sync", "20s")
        def again(self):
            """Sync as well."""

    jobs = Anarchon(make_app("first")).register(Reports())
    jobs.init_app(make_app("second"))
    with pytest.raises(ConfigurationError, match="job 'sync': there is one"):
        jobs.register(Twice())
    assert names_in(jobs.scheduler) == [["sync", "digest"]]


def test_what_was_removed_from_the_scheduler_can_be_defined_again():
    jobs = Anarchon(make_app()).register(Reports())
    assert jobs.scheduler.remove("sync")
    assert jobs.scheduler.remove("digest")
    jobs.every("digest", "2h", lambda: None).every("sync", "2h")(lambda: None)
    assert names_in(jobs.scheduler) == [["digest", "sync"]]
    with pytest.raises(ConfigurationError, match="job 'sync': there is one"):
        jobs.every("sync", "3h", lambda: None)
    assert in_next_app(jobs) == {"sync": "Every('2h')", "digest": "Every('2h')"}


def test_what_was_defined_on_the_scheduler_can_be_removed():
    jobs = Anarchon(make_app())
    jobs.scheduler.every("there", "1h", lambda: None)
    assert jobs.remove("there")
    assert names_in(jobs.scheduler) == [[]]
    jobs.every("mine", "1h", lambda: None)
    assert jobs.scheduler.remove("mine")
    assert jobs.remove("mine")  # which other apps would have got
    assert not jobs.remove("mine")
    assert in_next_app(jobs) == {}
    with pytest.raises(ConfigurationError, match="3 is not the name of a job"):
        jobs.remove(3)


def test_an_app_that_is_refused_leaves_the_given_scheduler_as_it_was():
    scheduler = Scheduler(MemoryBackend(), **OPTIONS)
    scheduler.every("taken", "1h", lambda: None)
    jobs = Anarchon(scheduler=scheduler)
    jobs.every("mine", "1h", lambda: None).every("taken", "2h", lambda: None)
    app, options = Flask("shop"), scheduler._options
    with pytest.raises(ConfigurationError, match="job 'taken': there is one"):
        jobs.init_app(app)
    assert names_in(scheduler) == [["taken"]]
    assert scheduler._options is options
    assert "anarchon" not in app.extensions
    scheduler.remove("taken")
    jobs.init_app(app)
    assert names_in(scheduler) == [["mine", "taken"]]


def test_jobs_can_be_removed():
    jobs = Anarchon()
    jobs.every("one", "1h", lambda: None).every("two", "1h", lambda: None)
    assert jobs.remove("one")
    jobs.init_app(make_app())
    assert [job.name for job in jobs.scheduler.jobs] == ["two"]
    assert jobs.remove("two")
    assert not jobs.remove("two")
    assert jobs.scheduler.jobs == ()


def test_events_may_be_listened_to_before_there_is_an_app():
    jobs, told = Anarchon(), []
    jobs.every("sync", "1h", lambda: None, catch_up=0)
    jobs.on("success", told.append)
    jobs.init_app(make_app())
    with jobs.scheduler as scheduler:
        run = scheduler.run_now("sync")
    assert told == [run]


def test_a_decorator_that_was_never_applied_is_told_of_at_start(caplog):
    jobs = Anarchon()
    jobs.every("sooner", "1h")
    jobs.every("applied", "1h", catch_up=0)(lambda: None)
    jobs.init_app(make_app())
    jobs.every("later", "1h")
    with jobs.scheduler:
        pass
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "@every('sooner', ...)" in told[0]
    assert "@every('later', ...)" in told[1]


# --- several apps, as factories make them ---


def test_each_app_has_a_scheduler_of_its_own_with_the_same_jobs():
    jobs = Anarchon()
    jobs.every("sync", "1h", lambda: None)
    first, second = make_app("first"), make_app("second")
    jobs.init_app(first)
    jobs.every("later", "1h", lambda: None)
    jobs.init_app(second)
    schedulers = [app.extensions["anarchon"] for app in (first, second)]
    assert schedulers[0] is not schedulers[1]
    assert [[job.name for job in one.jobs] for one in schedulers] == [["sync", "later"]] * 2
    assert jobs.scheduler is schedulers[1]
    with first.app_context():
        assert jobs.scheduler is schedulers[0]


def test_a_factory_may_define_its_jobs_each_time():
    jobs = Anarchon()

    def create_app(minutes: int) -> Flask:
        app = make_app()
        jobs.init_app(app)
        jobs.every("sync", 60 * minutes, lambda: None)
        jobs.register(Reports(), prefix="r.")
        return app

    apps = [create_app(minutes) for minutes in (1, 2, 3)]
    for minutes, app in enumerate(apps, 1):
        found = {job.name: job.schedule for job in app.extensions["anarchon"].jobs}
        assert sorted(found) == ["r.digest", "r.sync", "sync"]
        assert found["sync"].period_ms == 60_000 * minutes
    with pytest.raises(ConfigurationError, match="there is one of this name already"):
        jobs.every("sync", 60, lambda: None)
