"""All of them together on one scheduler, and on the scheduler of a Flask app."""

from __future__ import annotations

import pytest

from anarchon.contrib.opentelemetry import instrument
from anarchon.contrib.ping import ping
from anarchon.contrib.sentry import report
from tests.tracing.ping_server import PATIENCE_SECONDS, Server
from tests.tracing.test_metrics import Metered
from tests.tracing.test_sentry import no_sentry, sent  # noqa: F401 - fixtures
from tests.tracing.test_spans import Traced


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_they_do_not_get_into_each_others_way(make, clock, sent, order, monkeypatch):  # noqa: F811
    monkeypatch.setenv("no_proxy", "*")
    traced, metered, server, scheduler = Traced(), Metered(), Server(), make()
    providers = {"tracer_provider": traced.provider, "meter_provider": metered.provider}
    steps = [
        lambda: instrument(scheduler, **providers),
        lambda: report(scheduler, monitors=["bad"]),
        lambda: ping(scheduler, {"bad": server.url}),
    ]
    for step in order:
        steps[step]()
    scheduler.every("bad", "1m", lambda: 1 / 0)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    [span] = traced.runs
    assert span.attributes["error.type"] == "ZeroDivisionError"
    assert metered.points("anarchon.runs")["bad", "failed"].value == 1
    assert len(sent.events) == 1
    assert [item["status"] for item in sent.check_ins] == ["in_progress", "error"]
    assert [asked.path for asked in server.wait_for(2)] == ["/start", "/fail"]
    for listener in scheduler._listeners.of("failure"):
        if hasattr(listener.__self__, "sender"):
            listener.__self__.sender.flush(PATIENCE_SECONDS)
    server.end()


def test_the_scheduler_of_a_flask_app(clock):
    """Its handlers have the app's context and the span, whichever of the two is outside."""
    from flask import Flask, current_app
    from opentelemetry import trace

    from anarchon.contrib.flask import Anarchon

    jobs, seen = Anarchon(), []

    @jobs.every("job", "1m")
    def job():
        seen.append((current_app.name, trace.get_current_span().is_recording()))

    for name in ("one", "two"):
        app, traced, metered = Flask(name), Traced(), Metered()
        options = {"catch_up": 0}
        app.config.update(TESTING=True, ANARCHON_BACKEND="memory://", ANARCHON_OPTIONS=options)
        jobs.init_app(app)
        instrument(jobs.scheduler, tracer_provider=traced.provider, meter_provider=metered.provider)
    clock.attach(jobs.scheduler)
    with jobs.scheduler:
        clock.advance("1m")
    assert seen == [("two", True)]
    assert len(traced.runs) == 1
    assert metered.points("anarchon.runs")["job", "success"].value == 1
