"""Check-ins with Sentry's cron monitors: which jobs, what they say, and one for each run."""

from __future__ import annotations

import pytest

from anarchon import ConfigurationError, Every, MemoryBackend, Once
from anarchon.contrib._sentry_monitors import check_in_id_of, config_of, slug_of
from anarchon.contrib.sentry import report
from tests.tracing.test_sentry import fail, no_sentry, sent  # noqa: F401 - fixtures


def crontab(value, timezone="UTC", **more):
    return {"schedule": {"type": "crontab", "value": value}, "timezone": timezone, **more}


def interval(value, unit, **more):
    return {"schedule": {"type": "interval", "value": value, "unit": unit}, **more}


@pytest.mark.parametrize(
    ("define", "config"),
    [
        (
            lambda s: s.cron("job", "0 8 * * 1-5", fail, timezone="Europe/Athens"),
            crontab("0 8 * * 1-5", "Europe/Athens"),
        ),
        (lambda s: s.cron("job", "@daily", fail), crontab("0 0 * * *")),
        (lambda s: s.cron("job", "0 0 ? * MON", fail), crontab("0 0 * * MON")),
        (lambda s: s.cron("job", "30 0 8 * * *", fail), {}),  # with seconds
        (lambda s: s.every("job", "10m", fail), interval(10, "minute")),
        (lambda s: s.every("job", "90m", fail), interval(90, "minute")),
        (lambda s: s.every("job", "2h", fail), interval(2, "hour")),
        (lambda s: s.every("job", "1w", fail), interval(7, "day")),
        (lambda s: s.every("job", "10s", fail), {}),
        (lambda s: s.every("job", "90s", fail), {}),
        (lambda s: s.every("job", "1m", fail, timeout="90s"), interval(1, "minute", max_runtime=2)),
        (lambda s: s.once("job", "2027-01-01T00:00:00Z", fail), {}),
        (
            lambda s: s.schedule("job", Every("1h").between("2026-01-01T00:00:00Z"), fail),
            {},
        ),
        (lambda s: s.schedule("job", Once("2027-01-01T00:00:00Z"), fail), {}),
    ],
)
def test_the_configuration_follows_from_the_schedule(make, define, config):
    [job] = define(make()).jobs
    assert config_of(job) == config


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("digest", "digest"),
        ("Nightly report", "nightly-report"),
        ("shop.tasks:sync_all", "shop-tasks-sync_all"),
        ("x" * 51, f"{'x' * 41}-"),
        ("日報", ""),
    ],
)
def test_slugs_are_such_as_sentry_takes(name, slug):
    found = slug_of(name)
    assert found.startswith(slug)
    assert len(found) <= 50
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")
    assert len({slug_of("x" * 51), slug_of("x" * 52), slug_of("日報"), slug_of("月報")}) == 4


def test_a_run_checks_in_and_out_once(make, clock, sent):  # noqa: F811 - a fixture
    scheduler = make()
    scheduler.every("good", "10m", lambda ctx: ctx.signal.sleep("3s"))
    scheduler.every("bad", "10m", fail)
    scheduler.every("other", "10m", fail)
    report(scheduler, monitors={"good": {"checkin_margin": 5, "slug": "the-good"}, "bad": {}})
    clock.attach(scheduler)
    with scheduler:
        clock.advance("10m10s")
    begun, ended = (
        {item["monitor_slug"]: item for item in sent.check_ins if (item["status"] == status) is yes}
        for status, yes in (("in_progress", True), ("in_progress", False))
    )
    assert len(sent.check_ins) == 4
    assert {slug: item["status"] for slug, item in ended.items()} == {
        "the-good": "ok",
        "bad": "error",
    }
    for slug, item in ended.items():
        assert item["check_in_id"] == begun[slug]["check_in_id"]
        assert item["monitor_config"] == begun[slug]["monitor_config"]
    assert ended["the-good"]["duration"] == 3.0
    assert begun["the-good"]["monitor_config"] == interval(10, "minute", checkin_margin=5)
    assert ended["bad"]["check_in_id"] != ended["the-good"]["check_in_id"]


def test_true_is_every_job_that_sentry_understands(make, clock, sent):  # noqa: F811
    scheduler = make()
    scheduler.every("minute", "1m", lambda: None)
    scheduler.every("second", "1s", lambda: None)
    report(scheduler, monitors=True)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    assert {item["monitor_slug"] for item in sent.check_ins} == {"minute"}


def test_a_name_alone_counts_though_sentry_does_not_know_its_schedule(make, sent):  # noqa: F811
    scheduler = make()
    scheduler.once("job", "2100-01-01T00:00:00Z", lambda: None)
    report(scheduler, monitors=["job", "not defined yet"])
    with scheduler:
        scheduler.run_now("job")
    assert [item["status"] for item in sent.check_ins] == ["in_progress", "ok"]
    assert [item for item in sent.check_ins if "monitor_config" in item] == []


def test_without_monitors_nobody_checks_in(make, sent):  # noqa: F811
    scheduler = make()
    scheduler.every("job", "1m", lambda: None)
    report(scheduler)
    with scheduler:
        scheduler.run_now("job")
    assert sent.check_ins == []


def test_attempts_of_a_run_are_one_check_in(handed_over, sent):  # noqa: F811
    """Another instance ends what the first one began; an interruption says nothing."""
    handed_over(lambda scheduler: report(scheduler, monitors=["job"]))
    assert [item["status"] for item in sent.check_ins] == ["in_progress", "in_progress", "ok"]
    assert len({item["check_in_id"] for item in sent.check_ins}) == 1


def test_runs_of_other_stores_are_other_check_ins():
    one, two = MemoryBackend(), MemoryBackend()
    ids = [check_in_id_of(one, "job@1"), check_in_id_of(one, "job@2"), check_in_id_of(two, "job@1")]
    assert len(set(ids)) == 3
    assert {len(found) for found in ids} == {32}


@pytest.mark.parametrize("monitors", ["digest", b"digest", 1, None, [1], {"digest": True}])
def test_what_names_no_jobs_is_refused(make, monitors):
    with pytest.raises(ConfigurationError, match=r"report\(monitors\): .*(list of names|settings)"):
        report(make(), monitors=monitors)


@pytest.mark.parametrize("monitors", [["snyc", "sync"], {"snyc": {"slug": "sync"}}, True])
def test_a_name_that_no_job_has_is_a_warning_at_the_start(make, sent, caplog, monitors):  # noqa: F811
    scheduler = make()
    report(scheduler, monitors=monitors)
    scheduler.every("sync", "1h", fail)
    with scheduler:
        pass
    said = "report(monitors): no job 'snyc' on this scheduler; did you mean 'sync'?"
    expected = [] if monitors is True else [said]
    assert [text for text in caplog.messages if "no job" in text] == expected
