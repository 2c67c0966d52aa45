"""What the page about metrics shows is exported, and its programs serve it."""

from __future__ import annotations

import re
import timeit
from typing import get_args

import pytest
from prometheus_client import REGISTRY, generate_latest

from anarchon._values import Reason, Status
from anarchon.contrib import prometheus
from anarchon.contrib._prometheus_families import FAMILIES
from tests.docs.pages import blocks, coded, rows, text_of
from tests.docs.test_server_pages import serve  # noqa: F401 - a fixture
from tests.embedding.django_project import Project
from tests.metrics.scraped import Scraped
from tests.metrics.test_example import metrics_in

PAGE = "metrics.md"


@pytest.fixture
def page(run_page, monkeypatch):
    """Run the page; whatever it has put into the client's own registry is taken out again."""
    kept, made = [], prometheus.metrics

    def kept_metrics(*arguments, **options):
        kept.append(made(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(prometheus, "metrics", kept_metrics)
    yield run_page(PAGE)
    for one in kept:
        one.close()


def test_the_programs_of_the_page(page):
    scheduler, reports, *_ = page.schedulers
    with scheduler, reports:
        page.clock.advance("10s")
        found = Scraped(generate_latest(REGISTRY).decode())
        other = Scraped(generate_latest(page.names["registry"]).decode(), "reports_")
    ran = found.counted("run_starts_total", "scheduler", "job_name", "reason")
    assert ran == {
        ("anarchon", "sync", "catch-up"): 1,
        ("anarchon", "sync", "scheduled"): 1,
    }
    assert other.jobs() == {"digest"}
    answer = []
    request = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics"}
    body = page.names["app"](request, lambda status, _: answer.append(status))
    assert answer == ["200 OK"]
    assert b"anarchon_runs_total" in b"".join(body)
    page.names["watched"].close()
    left = Scraped(generate_latest(REGISTRY).decode()).samples
    assert {sample.labels["scheduler"] for sample in left} == {"anarchon", "site"}


def test_the_table_has_every_metric_and_what_it_is():
    ends = {"counter": "_total", "gauge": "", "histogram": ""}
    table = rows(PAGE, "metric", "type", "labels", "what it tells")
    assert [(coded(row[0]), row[1], coded(row[2])) for row in table] == [
        ([f"anarchon_{family.name}{ends[family.kind]}"], family.kind, [*family.labels])
        for family in FAMILIES
    ]


def test_statuses_and_reasons_that_it_names():
    _, _, sentence = text_of(PAGE).partition("\n- `status` is one of ")
    statuses, _, reasons = sentence.partition("\n- ")[0].partition("`reason` one of")
    assert set(coded(statuses)) == set(get_args(Status)) - {"running"}
    assert set(coded(reasons)) == set(get_args(Reason))


def test_what_it_asks_prometheus_for_is_there(page):
    there = {sample.name for sample in Scraped(generate_latest(REGISTRY).decode()).samples}
    with page.schedulers[0]:
        page.clock.advance("10s")
        there |= {sample.name for sample in Scraped(generate_latest(REGISTRY).decode()).samples}
    [asked] = [block.text for block in blocks(PAGE, "promql")]
    assert metrics_in(asked) <= there
    named = set(re.findall(r"`(anarchon_\w+)`", text_of(PAGE)))
    assert named - there <= {"anarchon_run_lateness_seconds", "anarchon_run_duration_seconds"}


def test_the_numbers_of_series_that_it_names(page):
    """14 for a job, and 34 more when it has run."""
    scheduler = page.schedulers[0]

    def series():
        samples = Scraped(generate_latest(REGISTRY).decode()).samples
        return [sample.labels.get("job_name") for sample in samples].count("sync")

    assert series() == 14
    scheduler.every("sync", "10s", lambda: None, catch_up=0, replace=True)
    with scheduler:
        page.clock.advance("10s")
        assert series() == 14 + 34
    assert "14 for each, and\n  34 more where" in text_of(PAGE)


def test_a_project_of_django(tmp_path):
    [program] = [block.text for block in blocks(PAGE) if block.file == "jobs.py"]
    project = Project(tmp_path, shop__jobs=program)
    try:
        asked = "import prometheus_client as c; print(c.generate_latest().decode())"
        said = project.manage("shell", "-v", "0", "-c", asked)
    finally:
        project.clean_up()
    assert 'anarchon_healthy{scheduler="anarchon"} 0.0' in said


@pytest.mark.serial
def test_what_counting_costs(page):
    """About 2 µs for the two events of a run; a slow machine may take ten times as long."""
    scheduler = page.schedulers[0]
    with scheduler:
        run = scheduler.run_now("sync")
    [meter] = scheduler._measures.meters

    def both():
        meter.run("started", run)
        meter.run("success", run)

    assert min(timeit.repeat(both, number=1000, repeat=5)) / 1000 < 20e-6


@pytest.mark.serial
def test_four_workers_of_gunicorn(serve, tmp_path, monkeypatch):  # noqa: F811 - the fixture
    (tmp_path / "metrics").mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "metrics")
    assert "$ export PROMETHEUS_MULTIPROC_DIR=metrics\n" in text_of(PAGE)
    server = serve(PAGE, "gunicorn app:app", "-b", "127.0.0.1:{port}")

    def scraped():
        return Scraped(server.wait_for(lambda: server.answers("/metrics"), "an answer"))

    server.wait_for(lambda: scraped()("free_workers") == 40, "four times ten workers")
    labels = ("job_name", "status", "reason")
    server.wait_for(lambda: scraped().counted("runs_total", *labels), "a run")
    server.process.terminate()
    server.end(0, -15)
