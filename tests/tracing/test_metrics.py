"""Metrics of runs by OpenTelemetry: what is counted, once each, by whoever recorded it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from anarchon import MemoryBackend
from anarchon.contrib._opentelemetry_metrics import instruments_of
from anarchon.contrib.opentelemetry import instrument
from tests.tracing.conftest import PATIENCE_SECONDS

NOON = 1_791_633_600  # 2026-10-10T12:00:00Z


class Metered:
    def __init__(self):
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def points(self, name):
        """Return the points of an instrument by their attributes, but for the namespace."""
        found, named = {}, 0
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for metric in resource.scope_metrics[0].metrics:
                if metric.name == name:
                    named += 1
                    assert metric.unit == ("{run}" if name == "anarchon.runs" else "s")
                    for point in metric.data.data_points:
                        attributes = dict(point.attributes)
                        assert attributes.pop("anarchon.namespace") == "anarchon"
                        found[tuple(attributes.values())] = point
        assert named <= 1
        return found


@pytest.fixture
def metered():
    return Metered()


def test_runs_are_counted_by_outcome_and_timed(make, clock, metered):
    scheduler = make()
    scheduler.every("good", "1m", lambda ctx: ctx.signal.sleep("3s"))
    scheduler.every("bad", "1m", lambda: 1 / 0)
    scheduler.every("slow", "1m", lambda ctx: ctx.signal.sleep("90s"))
    instrument(scheduler, meter_provider=metered.provider)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("2m10s")
    runs = {key: point.value for key, point in metered.points("anarchon.runs").items()}
    assert runs == {
        ("good", "success"): 2,
        ("bad", "failed"): 2,
        ("slow", "skipped"): 1,
        ("slow", "interrupted"): 1,
    }
    durations = metered.points("anarchon.run.duration")
    assert durations["good", "success"].sum == pytest.approx(6.0)
    assert durations["good", "success"].count == 2
    assert durations["slow", "interrupted"].sum == pytest.approx(70.0)
    assert ("slow", "skipped") not in durations
    assert durations["bad", "failed"].explicit_bounds[0] == 0.005
    for _ in range(2):  # also when nothing has happened since
        success = metered.points("anarchon.run.last_success")
        assert {key: point.value for key, point in success.items()} == {("good",): NOON + 123.0}


def test_lateness_is_that_of_first_attempts(make, clock, metered):
    scheduler = make(workers=1)
    scheduler.every("first", "1m", lambda ctx: ctx.signal.sleep("4s"))
    scheduler.every("job", "30m", lambda: None)
    instrument(scheduler, meter_provider=metered.provider)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("30m10s")
        run = scheduler.last_run("job")
    late = metered.points("anarchon.run.lateness")
    assert late["job", "scheduled"].sum == pytest.approx(
        (run.started_at - run.scheduled_at).total_seconds()
    )
    assert late["first", "scheduled"].count == 30


def test_a_run_that_changed_hands_counts_at_both_ends_and_is_late_once(handed_over):
    each = {}

    def prepare(scheduler):
        metered = each[scheduler] = Metered()
        instrument(scheduler, meter_provider=metered.provider)

    pair = handed_over(prepare)
    one, two = (each[scheduler] for scheduler in pair)
    assert list(one.points("anarchon.runs")) == [("job", "interrupted")]
    assert list(two.points("anarchon.runs")) == [("job", "success")]
    assert len(one.points("anarchon.run.lateness")) == 1
    assert two.points("anarchon.run.lateness") == {}


def test_manual_runs_are_counted_but_never_late(make, metered):
    scheduler = make()
    scheduler.every("job", "1h", lambda: None)
    instrument(scheduler, meter_provider=metered.provider)
    with scheduler:
        scheduler.run_now("job")
    assert metered.points("anarchon.runs")["job", "success"].value == 1
    assert metered.points("anarchon.run.lateness") == {}


def test_schedulers_of_one_provider_share_its_instruments(make, metered, caplog):
    for _ in range(2):
        scheduler = make(MemoryBackend())
        scheduler.every("job", "1h", lambda: None)
        instrument(scheduler, meter_provider=metered.provider)
        with scheduler:
            scheduler.run_now("job")
    assert list(metered.points("anarchon.run.last_success")) == [("job",)]
    assert metered.points("anarchon.runs")["job", "success"].value == 2
    assert caplog.records == []
    assert instruments_of(metered.provider) is instruments_of(metered.provider)
    assert instruments_of(None) is instruments_of(None)


GLOBAL = """
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from anarchon import MemoryBackend, Scheduler
    from anarchon.contrib.opentelemetry import instrument

    reader = InMemoryMetricReader()
    for turn in range(2):
        scheduler = Scheduler(MemoryBackend(), catch_up=0)
        scheduler.every("job", "1h", lambda: None)
        instrument(scheduler)
        if turn == 0:
            metrics.set_meter_provider(MeterProvider([reader]))
        with scheduler:
            scheduler.run_now("job")
    [resource] = reader.get_metrics_data().resource_metrics
    print(*(metric.name for metric in resource.scope_metrics[0].metrics))
    print(resource.scope_metrics[0].metrics[0].data.data_points[0].value)
"""


def test_the_global_provider_may_come_later(tmp_path):
    import subprocess
    import sys
    import textwrap

    from tests.tracing.test_spans import ROOT

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(GLOBAL)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=6 * PATIENCE_SECONDS,
    )
    names = "anarchon.runs anarchon.run.duration anarchon.run.last_success"
    assert (done.stdout, done.stderr) == (f"{names}\n2\n", "")
