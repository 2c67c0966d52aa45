"""What the page about tracing shows is done here, with its own programs and its own tables."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
import sentry_sdk
from opentelemetry import trace
from sentry_sdk.scope import Scope

from anarchon.contrib import _opentelemetry_metrics, _ping_sending, _sentry_reports
from anarchon.contrib._ping_http import _Redirects
from tests.docs.pages import coded, rows, text_of
from tests.tracing.ping_server import PATIENCE_SECONDS, Server
from tests.tracing.test_log_fields import LINES
from tests.tracing.test_metrics import Metered
from tests.tracing.test_sentry import init
from tests.tracing.test_spans import Traced

PAGE = "tracing.md"


@pytest.fixture
def watched(run_page, monkeypatch):
    """Run the page where everything that it tells is kept, and run its job at two slots."""
    traced, metered, server = Traced(), Metered(), Server()
    said, sent = io.StringIO(), []
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
    instruments = _opentelemetry_metrics.instruments_of(metered.provider)
    monkeypatch.setattr(_opentelemetry_metrics, "_of_global", [instruments])
    monkeypatch.setattr(sentry_sdk, "init", lambda: sent.append(init()))
    monkeypatch.setattr("sys.stderr", said)  # where the handler of the page writes
    monkeypatch.setenv("DIGEST_PING_URL", f"{server.url}/id")
    monkeypatch.setenv("no_proxy", "*")
    logger = logging.getLogger("anarchon")
    before = list(logger.handlers)
    page = run_page(PAGE)
    try:
        [scheduler] = page.schedulers
        with scheduler:
            page.clock.advance("24h")
            page.names["scheduler"].every("bad", "1m", lambda: 1 / 0)
            page.clock.advance("1m")
        sender = scheduler._listeners.of("success")[-1].__self__.sender
        sender.flush(PATIENCE_SECONDS)
        yield page, traced, metered, sent[0], server, said.getvalue()
    finally:
        logger.handlers[:] = before
        logger.setLevel(logging.NOTSET)
        server.end()
        sentry_sdk.get_client().close()
        Scope.get_global_scope().set_client(None)


def test_the_page_runs_and_everybody_is_told(watched, capsys):
    _, traced, metered, sent, server, said = watched
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {"started", "success", "failure"} < {line["anarchon_event"] for line in lines}
    assert {span.name for span in traced.runs} == {"run digest", "run bad"}
    assert metered.points("anarchon.runs")["digest", "success"].value == 1
    assert [item["status"] for item in sent.check_ins] == ["in_progress", "ok"]
    config = sent.check_ins[0]["monitor_config"]
    assert config["schedule"] == {"type": "crontab", "value": "0 8 * * 1-5"}
    assert (config["timezone"], config["max_runtime"]) == ("Europe/Athens", 10)
    assert config["checkin_margin"] == 5
    assert len(sent.events) == 1
    assert [asked.path for asked in server.asked] == ["/id/start", "/id"]


def test_the_table_has_every_attribute_of_the_log():
    table = {coded(row[0])[0] for row in rows(PAGE, "attribute", "on lines about", "is")}
    real = {name for line, _ in LINES.values() for name in line.fields}
    assert table < real
    # Those of a few lines about the process, and the one that is named below the table.
    rare = {
        f"anarchon_{name}" for name in ("jobs", "store", "finding", "offset_ms", "pid", "count")
    }
    assert real - table == rare
    assert "anarchon_offset_ms" in text_of(PAGE)
    named = coded(rows(PAGE, "attribute", "on lines about", "is")[0][2])
    assert set(named) <= {line.fields["anarchon_event"] for line, _ in LINES.values()}


def test_the_tables_of_opentelemetry_are_those_of_real_spans_and_metrics(watched):
    _, traced, metered, *_ = watched
    table = {coded(row[0])[0] for row in rows(PAGE, "attribute", "is")}
    real = {name for span in traced.runs for name in span.attributes}
    assert table == real | {"anarchon.run.abort_reason", "anarchon.job.tags"}
    for name, unit, by, _ in rows(PAGE, "metric", "unit", "by", "is"):
        points = metered.points(coded(name)[0])  # which checks the unit
        assert points
        assert coded(unit)
        assert {len(key) + 1 for key in points} == {len(by.split(","))}


def test_numbers_of_the_page():
    text = " ".join(text_of(PAGE).split())
    assert _ping_sending.EXIT_SECONDS == 5.0
    assert _ping_sending.BOUND == 100
    assert _Redirects.max_redirections == 3
    assert _sentry_reports.BOUND == 1000
    for said in (
        "have 5 seconds",
        "At most 100 pings wait",
        "Up to three redirects",
        "A thousand are kept",
    ):
        assert said in text
    from inspect import signature

    from anarchon.contrib.ping import ping

    options = signature(ping).parameters
    assert (options["timeout"].default, options["tries"].default) == (5, 3)
    assert "which is 5 seconds as a whole, and there are `tries` of them, 3" in text


def test_addresses_are_in_nobodys_repr(watched):
    page, *_ = watched
    assert "5f0c" not in repr(page.names["PingUrls"](success="https://beats.example/5f0c"))


def test_a_message_is_as_the_page_says():
    assert re.search(r"`digest failed:\s+TimeoutError: still running after 600 s`", text_of(PAGE))
