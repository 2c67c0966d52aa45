"""The rules and the dashboard among the examples ask for what is exported, and for nothing else."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml
from prometheus_client import generate_latest

from anarchon._measures import OPERATIONS
from anarchon._values import Reason, Status
from anarchon.contrib.prometheus import metrics
from tests.metrics.scraped import Scraped
from tests.servers.processes import Bringer, Missing

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "prometheus"
GROUPS = yaml.safe_load((EXAMPLE / "alerts.yml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
TESTS = [
    test
    for name in ("alerts_test.yml", "days_test.yml")
    for test in yaml.safe_load((EXAMPLE / name).read_text())["tests"]
]
DASHBOARD = json.loads((EXAMPLE / "dashboard.json").read_text())
PANELS = DASHBOARD["panels"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}

SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
WORDS = {"and", "or", "unless", "bool", "offset", "group_left", "group_right"}
OF_THE_SCRAPE = {"instance"}


def metrics_in(expression: str) -> set[str]:
    """Return the metrics that an expression asks for."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare)
    bare = GROUPING.sub(" ", bare)
    found = re.findall(r"(?<![\w:])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])", bare)
    return set(found) - WORDS


def groupings_in(expression: str) -> set[str]:
    listed = [labels.split(",") for labels in GROUPING.findall(expression)]
    return {label.strip() for label in itertools.chain(*listed)} - {""}


def matchers_in(expression: str) -> list[tuple[str, str, str]]:
    return [
        (metric, label, value)
        for metric, inside in SELECTOR.findall(expression)
        for label, value in MATCHER.findall(inside)
    ]


def expressions() -> list[str]:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [*(rule["expr"] for rule in RULES), *asked]


@pytest.fixture
def exported(make, clock, registry):
    """Return the labels of every sample that is exported, by name."""
    scheduler = make()
    metrics(scheduler, registry=registry)
    scheduler.every("job", "10s", lambda: None)
    with scheduler:
        clock.advance("10s")
        found = Scraped(generate_latest(registry).decode())
    return {sample.name: set(sample.labels) for sample in found.samples}


def recorded() -> dict[str, set[str]]:
    names = {"anarchon:last_success_timestamp_seconds", "anarchon:success_limit_seconds"}
    assert {rule["record"] for rule in RULES if "record" in rule} == names
    return {name: {"scheduler", "job_name"} for name in names}


def test_what_finds_metrics_finds_them():
    text = 'sum by (a, b) (rate(x_total{c=~"d e"}[5m])) / on (f) group_left max_over_time(y:z[1h])'
    assert metrics_in(f"{text} > 0 unless w == 1") == {"x_total", "y:z", "w"}
    assert groupings_in(text) == {"a", "b", "f"}
    assert matchers_in(text) == [("x_total", "c", "d e")]


def test_every_expression_asks_for_what_is_exported(exported):
    known = {**exported, **recorded()}
    asked = [metrics_in(expression) for expression in expressions()]
    assert len(asked) > 30
    assert set().union(*asked) <= set(known)
    # And what is exported is asked for, but for the count that no rate of lateness needs.
    spared = {"anarchon_run_lateness_seconds_sum", "anarchon_run_lateness_seconds_count"}
    assert set(exported) - spared <= set().union(*asked)


def test_every_label_is_one_that_the_metric_has(exported):
    known = {**exported, **recorded()}
    for expression in expressions():
        for metric, label, _ in matchers_in(expression):
            assert label in known[metric] | OF_THE_SCRAPE, expression
        for name in metrics_in(expression):
            assert groupings_in(expression) <= known[name] | OF_THE_SCRAPE, expression


def test_every_value_that_is_looked_for_can_be_there():
    values = {
        "status": set(get_args(Status)) - {"running"},
        "reason": set(get_args(Reason)),
        "operation": set(OPERATIONS),
        "scheduler": {"anarchon", "$scheduler"},
        "job_name": {"$job_name"},
    }
    for expression in expressions():
        for _, label, value in matchers_in(expression):
            assert set(value.split("|")) <= values[label], expression


def test_labels_in_texts_are_left_by_the_expression(exported):
    """`{{ $labels.x }}` of a label that was summed away is empty."""
    for rule in RULES:
        if "alert" not in rule:
            continue
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = groupings_in(rule["expr"])
        if not kept:
            [metric] = metrics_in(rule["expr"])
            kept = exported[metric] | OF_THE_SCRAPE
        assert used <= kept, rule["alert"]


def test_every_alarm_is_tested_raised_and_silent():
    checks = [check for test in TESTS for check in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in RULES if "alert" in rule}
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == alerts
    assert {check["alertname"] for check in checks if not check.get("exp_alerts")} == alerts
    series = {re.split(r"[{ ]", one["series"])[0] for test in TESTS for one in test["input_series"]}
    asked = set().union(*(metrics_in(rule["expr"]) for rule in RULES))
    assert series == {name for name in asked if not name.startswith("anarchon:")}


@pytest.mark.parametrize("name", ["alerts_test.yml", "days_test.yml"])
def test_groups_are_tested_in_the_order_in_which_they_record(name):
    told = yaml.safe_load((EXAMPLE / name).read_text())
    assert told["group_eval_order"] == [group["name"] for group in GROUPS]


@pytest.mark.parametrize(
    "command", ["check rules alerts.yml", "test rules alerts_test.yml days_test.yml"]
)
def test_promtool_agrees(command):
    promtool = shutil.which("promtool")
    if promtool is None:
        raise Missing("promtool", Bringer.SYSTEM)
    readme = (EXAMPLE / "README.md").read_text()
    assert f"$ promtool {command}\n" in readme
    done = subprocess.run(
        [promtool, *command.split()], cwd=EXAMPLE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_the_dashboard_hangs_together():
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    places = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) == 23
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == set(VARIABLES)
    for panel in PANELS:
        assert panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_the_variables_list_labels_of_what_is_exported(exported):
    asked = {name: one["query"]["query"] for name, one in VARIABLES.items() if name != "datasource"}
    for name, query in asked.items():
        assert VARIABLES[name]["definition"] == query
        metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", query).groups()
        assert label == name
        assert label in exported[metric]


def test_the_limits_are_within_what_the_rules_look_back_over():
    """Else a job whose limit is longer would seem never to have succeeded."""
    limits = [
        float(re.fullmatch(r"vector\((\d+)\)", rule["expr"])[1])
        for rule in RULES
        if rule.get("record") == "anarchon:success_limit_seconds"
    ]
    asked = " ".join(expressions())
    [days] = {int(days) for days in re.findall(r"success_timestamp_seconds[^[]*\[(\d)d\]", asked)}
    assert max(limits) < days * 86_400
