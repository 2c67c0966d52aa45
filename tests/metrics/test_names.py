"""Names, labels and texts as Prometheus wants them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from prometheus_client.openmetrics.exposition import generate_latest

from anarchon.contrib._prometheus_families import FAMILIES, names
from anarchon.contrib.prometheus import metrics
from tests.servers.processes import Bringer, Missing


@pytest.fixture
def ran(make, clock, registry):
    """Let something of everything happen."""
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda ctx: ctx.signal.sleep("1s"))
    with scheduler:
        clock.advance("15s")
        yield


def test_every_metric_is_there_and_no_other(ran, scrape):
    found = scrape()
    assert {sample.name for sample in found.samples} == set(names())
    assert len(found.samples) == len(found.text.splitlines()) - found.text.count("# ")


def test_labels_are_those_that_are_declared(ran, scrape):
    declared = {family.name: {"scheduler", *family.labels} for family in FAMILIES}
    found = scrape()
    for family in found.families:
        name = family.name.removeprefix("anarchon_")
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == declared[name]
            # Prometheus renames labels that its own hide.
            assert not {"job", "instance"} & set(sample.labels)


def test_types_and_texts(ran, scrape):
    found = scrape()
    kinds = {family.name.removeprefix("anarchon_"): family.type for family in found.families}
    assert kinds == {family.name: family.kind for family in FAMILIES}
    for family in found.families:
        assert re.fullmatch(r"\S.*\.", family.documentation)


def test_promtool_finds_nothing_to_complain_about(ran, scrape):
    promtool = shutil.which("promtool")
    if promtool is None:
        raise Missing("promtool", Bringer.SYSTEM)
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=scrape().text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_open_metrics_as_well(ran, serve, registry):
    text = serve(registry)(Accept="application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert text == generate_latest(registry).decode()
    assert 'anarchon_runs_total{job_name="job",reason="scheduled"' in text
