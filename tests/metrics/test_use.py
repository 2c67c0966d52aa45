"""How metrics are asked for: when, how often, for whom, and what becomes of them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest

from anarchon import ConfigurationError, MemoryBackend
from anarchon.contrib.prometheus import Metrics, metrics
from tests.metrics.scraped import Scraped

RUNS = ("job_name", "status")


def runs_of(registry, prefix="anarchon_"):
    return Scraped(generate_latest(registry).decode(), prefix).counted("runs_total", *RUNS)


# --- when ---


def test_after_the_start_counts_from_then_on(make, clock, registry):
    scheduler = make()
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("20s")
        metrics(scheduler, registry=registry)
        assert runs_of(registry) == {}
        clock.advance("10s")
        assert runs_of(registry) == {("job", "success"): 1}


def test_counts_go_on_when_it_is_started_again(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda: None)
    for count in (2, 4):
        with scheduler:
            clock.advance("20s")
        assert runs_of(registry) == {("job", "success"): count}
    found = Scraped(generate_latest(registry).decode())
    assert found("store_calls_total", operation="open") == 2
    assert found("store_calls_total", operation="claim") == 4


def test_a_forked_child_begins_at_0(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("20s")
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            before = runs_of(registry)
            with scheduler:
                scheduler.run_now("job")
            os.write(writing, repr((before, runs_of(registry))).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert eval(os.read(reading, 1000)) == ({}, {("job", "success"): 1})
    assert runs_of(registry) == {("job", "success"): 2}
    for end in (reading, writing):
        os.close(end)


def test_no_listener_can_hold_the_counts_up(make, clock, registry):
    """They don't come by the thread for listeners, of whose queue some may be dropped."""
    scheduler, go_on = make(), threading.Event()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "1s", lambda: None)
    scheduler.on("success", lambda _: go_on.wait(20))
    with scheduler:
        clock.advance("5s")
        found = runs_of(registry)
        go_on.set()
    assert found == {("job", "success"): 5}


def test_what_a_meter_raises_is_logged_and_nothing_else_is_harmed(make, clock, caplog):
    class Broken:
        def begin(self):
            raise ValueError("at the beginning")

        def run(self, event, run):
            raise ValueError("in between")

        def end(self):
            raise ValueError("at the end")

    scheduler = make()
    scheduler._measures.meters.append(Broken())
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("10s")
        assert scheduler.last_run("job").status == "success"
    assert scheduler.state == "idle"
    for words in ("at the beginning", "in between", "at the end"):
        assert words in caplog.text
    assert "the meter Broken raised" in caplog.text


# --- jobs ---


def test_a_job_that_is_removed_takes_its_series_along(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry)
    for name in ("stays", "goes"):
        scheduler.every(name, "10s", lambda: None)
    with scheduler:
        clock.advance("10s")
        assert Scraped(generate_latest(registry).decode()).jobs() == {"stays", "goes"}
        scheduler.remove("goes")
        clock.advance("10s")
        assert Scraped(generate_latest(registry).decode()).jobs() == {"stays"}
        assert runs_of(registry) == {("stays", "success"): 2}
        scheduler.every("goes", "10s", lambda: None)
        clock.advance("10s")
        assert runs_of(registry) == {("stays", "success"): 3, ("goes", "success"): 1}


def test_a_run_that_ends_after_its_job_was_removed_brings_nothing_back(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("5s"))
    with scheduler:
        clock.advance("11s")
        scheduler.remove("job")
        clock.advance("10s")
        assert scheduler.last_run("job").status == "success"
        assert Scraped(generate_latest(registry).decode()).jobs() == set()


def test_jobs_that_come_and_go_are_forgotten_though_nobody_scrapes(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry)
    [meter] = scheduler._measures.meters
    with scheduler:
        for number in range(30):
            scheduler.every(f"job {number}", "1s", lambda: None)
            clock.advance("1s")
            scheduler.remove(f"job {number}")
    assert len(meter._jobs) <= 2


# --- several ---


def test_two_schedulers_have_names(make, clock, registry):
    one, two = make(MemoryBackend(namespace="web")), make(MemoryBackend(namespace="web"))
    metrics(one, registry=registry)
    with pytest.raises(ConfigurationError, match="of the name 'web' already"):
        metrics(two, registry=registry)
    metrics(two, registry=registry, name="reports")
    one.every("job", "10s", lambda: None)
    two.every("job", "5s", lambda: None)
    with one, two:
        clock.advance("20s")
    found = Scraped(generate_latest(registry).decode())
    counts = found.counted("runs_total", "scheduler", "job_name")
    assert counts == {("web", "job"): 2, ("reports", "job"): 4}


def test_once_in_a_registry_and_in_as_many_as_you_like(make, clock, registry):
    scheduler, other = make(), CollectorRegistry()
    metrics(scheduler, registry=registry)
    with pytest.raises(ConfigurationError, match="call it once"):
        metrics(scheduler, registry=registry, name="another name")
    metrics(scheduler, registry=registry, prefix="jobs")
    metrics(scheduler, registry=other)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("10s")
    for found in (runs_of(registry), runs_of(registry, "jobs_"), runs_of(other)):
        assert found == {("job", "success"): 1}


def test_closed_ones_are_gone_and_may_come_back(make, clock, registry):
    one, two = make(), make()
    first, second = metrics(one, registry=registry), metrics(two, registry=registry, name="two")
    assert repr(second) == "<Metrics anarchon_* of scheduler 'two'>"
    one.every("job", "10s", lambda: None)
    first.close()
    first.close()
    assert one._measures.meters == []
    found = Scraped(generate_latest(registry).decode())
    assert {sample.labels["scheduler"] for sample in found.samples} == {"two"}
    second.close()
    assert generate_latest(registry) == b""
    assert isinstance(metrics(one, registry=registry, lateness_buckets=[1]), Metrics)
    with one:
        clock.advance("10s")
    assert runs_of(registry) == {("job", "success"): 1}


def test_the_registry_of_the_client_is_the_default(make):
    scheduler = make()
    scheduler.every("job", "10s", lambda: None)
    kept = metrics(scheduler)
    try:
        assert b'anarchon_healthy{scheduler="anarchon"} 0.0' in generate_latest(REGISTRY)
        # One of the names alone, as in /metrics?name[]=anarchon_healthy
        some = generate_latest(REGISTRY.restricted_registry(["anarchon_healthy"])).decode()
        assert Scraped(some).values == {("healthy", (("scheduler", "anarchon"),)): 0}
    finally:
        kept.close()
    assert b"anarchon" not in generate_latest(REGISTRY)


# --- arguments ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"registry": 7}, "7 is no registry"),
        ({"prefix": "my-app"}, "'my-app' can't begin the name of a metric"),
        ({"prefix": ""}, "can't begin"),
        ({"prefix": None}, "None can't begin"),
        ({"name": " "}, "' ' is no name"),
        ({"name": 7}, "7 is no name"),
        ({"lateness_buckets": []}, "lateness_buckets.* are no buckets"),
        ({"duration_buckets": [1, 1]}, "duration_buckets.* are no buckets"),
        ({"duration_buckets": [0, 1]}, "no buckets"),
        ({"duration_buckets": [math.nan]}, "no buckets"),
        ({"duration_buckets": ["x"]}, "no buckets"),
        ({"duration_buckets": 7}, "no buckets"),
    ],
)
def test_what_can_not_be_meant_is_refused(make, registry, options, words):
    scheduler = make()
    with pytest.raises(ConfigurationError, match=words):
        metrics(scheduler, **{"registry": registry, **options})
    assert scheduler._measures.meters == []
    metrics(scheduler, registry=registry)


def test_what_is_no_scheduler_is_refused(registry):
    with pytest.raises(ConfigurationError, match="is no scheduler"):
        metrics("app:scheduler", registry=registry)


def test_names_that_are_taken_are_refused(make, registry):
    Counter("anarchon_runs", "Somebody else's.", registry=registry)
    with pytest.raises(ConfigurationError, match="has metrics of these names already") as refused:
        metrics(make(), registry=registry)
    assert isinstance(refused.value.__cause__, ValueError)
    metrics(make(), registry=registry, prefix="jobs")


def test_buckets_of_ones_own(make, clock, registry):
    scheduler = make()
    metrics(scheduler, registry=registry, duration_buckets=(2, 4, math.inf))
    scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("3s"))
    with scheduler:
        clock.advance("15s")
    found = Scraped(generate_latest(registry).decode())
    assert found.histogram("run_duration_seconds", job_name="job") == ({4.0: 1}, 3.0, 1)
    bounds = [sample.labels.get("le") for sample in found.samples if "duration" in sample.name]
    assert bounds == ["2.0", "4.0", "+Inf", None, None]
    with pytest.raises(ConfigurationError, match="with other buckets"):
        metrics(make(), registry=registry, name="two")


def test_without_the_client_the_error_names_the_extra(tmp_path):
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from anarchon import MemoryBackend, Scheduler\n"
        "from anarchon.contrib.prometheus import metrics\n"
        "try: metrics(Scheduler(MemoryBackend()))\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install 'anarchon[prometheus]'" in done.stdout
