"""The commands about the fleet as it is: instances, and one look of top where no terminal is."""

from __future__ import annotations

import json

import pytest

from tests.cli.runner import run
from tests.commands.presences import present
from tests.commands.stores import STORES, store_on
from tests.facade.helpers import until

URL = ("--backend", "sqlite:///jobs.db")


@pytest.mark.parametrize("words", [(), URL])
def test_instances_are_listed_with_the_app_and_with_the_store_alone(shop, words):
    present(shop / "jobs.db", "web-1")
    present(shop / "jobs.db", "web-2", pid=9, jobs={"sync": "2"}, running=3)
    status, out, err = run("instances", *words)
    assert (status, err) == (0, "")
    heads, one, two, warning = out.splitlines()
    assert heads.startswith("instance  host:pid  state ")
    assert one.startswith("web-1     box:7     idle, expected at ")
    assert two.startswith("web-2     box:9     running 3 ")
    assert two.endswith("  +12 ms")
    assert warning.startswith("note: the schedule of sync differs between web-1, web-2: ")
    data = json.loads(run("instances", *words, "--json").out)
    assert [one["state"] for one in data["instances"]] == ["idle", "running"]
    assert [one["name"] for one in data["warnings"]] == ["schedules-differ"]


def test_nobody_is_there(shop):
    status, out, err = run("instances")
    assert (status, out) == (0, "no instance is known to the store\n")
    assert err.startswith("anarchon instances: <SqliteBackend ")
    assert json.loads(run("instances", "--json").out) == {"instances": [], "warnings": []}


@pytest.mark.parametrize("variant", STORES)
def test_real_instances_are_seen_on_each_store(variant, shared_server, tmp_path):
    with store_on(variant, shared_server, tmp_path) as store:
        words = ("--backend", store.url, "--namespace", store.namespace)
        service = store.scheduler(catch_up=0, instance_id="web-1")
        service.every("sync", "1d", lambda: None)
        with service:
            until(service.instances, "it is heard")
            assert run("instances", *words).out.splitlines()[1].startswith("web-1  ")
            [one] = json.loads(run("top", *words, "--json").out)["instances"]
            assert (one["instance_id"], one["jobs"], one["state"]) == ("web-1", ["sync"], "idle")
        assert run("instances", *words).out == "no instance is known to the store\n"


def test_top_without_a_terminal_is_one_look(shop):
    present(shop / "jobs.db", "web-1")
    status, out, err = run("top")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    titles = [part.partition("\n")[0] for part in out.split("\n\n")]
    assert titles == ["instances", "running", "jobs"]
    assert "\nweb-1     box:7     idle, expected at " in out
    assert "\nnothing runs\n" in out
    assert {line.partition(" ")[0] for line in out.splitlines()} >= {"sync", "digest"}
    assert [one["name"] for one in json.loads(run("top", "--json").out)["jobs"]] == [
        *("sync", "digest"),
    ]


@pytest.mark.parametrize("every", ["99ms", "soon", "0s"])
def test_a_time_between_looks_that_can_not_be_meant(every):
    status, out, err = run("top", "--every", every, "--backend", "memory://")
    assert (status, out) == (2, "")
    assert err.startswith("anarchon top: --every: ")


@pytest.mark.parametrize("words", [["instances"], ["top"]])
def test_a_store_that_is_down_is_one_line(words):
    status, out, err = run(*words, "--backend", "redis://:hunter2@127.0.0.1:1/0")
    assert (status, out) == (1, "")
    assert err.startswith(f"anarchon {words[0]}: Redis at ")
    assert "hunter2" not in err
    assert err.count("\n") == 1
