"""Commands that go on, as processes: run, tail, export, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.runner import run
from tests.commands.helpers import ended, environment, first_success
from tests.commands.stores import STORES, Store, store_on
from tests.servers.redis import RedisServer

QUICK = """
import os
from anarchon import Scheduler
from anarchon._store_urls import backend_at

scheduler = Scheduler(
    backend_at(os.environ["STORE"], what="it", namespace=os.environ["SPACE"]),
    instance_id="web-1", lease="3s", heartbeat="500ms", catch_up=0,
)

@scheduler.every("sync", "300ms")
def sync():
    print("syncing")
"""
LINE = r"sync @ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z: \w+.*\n"


def begun(*words: str, folder, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anarchon", *words],
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def quick(tmp_path):
    """A folder with an app, and what its process needs in the environment."""
    (tmp_path / "quick.py").write_text(QUICK, encoding="utf-8")
    return {
        "folder": tmp_path,
        "ANARCHON_APP": "quick:scheduler",
        "STORE": f"sqlite:///{tmp_path}/jobs.db",
        "SPACE": "anarchon",
    }


def test_an_instance_runs_and_a_tail_follows_it(quick):
    with ended(begun("run", "--json", **quick)) as process:
        assert first_success(process)["job"] == "sync"
        assert re.fullmatch(
            r"anarchon run: 1 job on <SqliteBackend .*>; Ctrl-C or SIGTERM stops it\n",
            process.stderr.readline(),
        )
        with ended(begun("tail", "-n", "0", "--interval", "100ms", **quick)) as tail:
            assert all(re.fullmatch(LINE, tail.stdout.readline()) for _ in range(3))
            tail.send_signal(signal.SIGINT)
            _, err = tail.communicate(timeout=15)
            assert (err.strip(), tail.returncode) == ("", 130)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
        assert process.returncode == 0, err
        # One may have been claimed in the moment of the signal.
        ends = {json.loads(line)["status"] for line in out.splitlines()}
        assert ends <= {"success", "interrupted", "missed"}
        assert "syncing\n" in err


@pytest.mark.parametrize("variant", STORES[1:])
def test_a_tail_follows_on_a_server(variant, shared_server, tmp_path, quick):
    with store_on(variant, shared_server, tmp_path) as store:
        words = ("--backend", store.url, "--namespace", store.namespace, "--interval", "100ms")
        service = store.scheduler(catch_up=0)
        service.every("sync", "300ms", lambda: None)
        with service, ended(begun("tail", "--json", *words, folder=tmp_path)) as tail:
            seen = [json.loads(tail.stdout.readline()) for _ in range(4)]
            assert {run["job"] for run in seen} == {"sync"}
            assert len({(run["slot"], run["status"]) for run in seen}) == 4
            tail.terminate()
            assert tail.wait(15) == -signal.SIGTERM


def test_a_tail_says_once_that_the_store_is_down(tmp_path, own_server):
    server = own_server(RedisServer(password="hunter2", persist=True))
    store = Store(server.url.replace("//", "//:hunter2@"), "anarchon")
    run_once(store)
    words = ("tail", "--backend", store.url, "--interval", "100ms")
    with ended(begun(*words, folder=tmp_path)) as tail:
        assert tail.stdout.readline().startswith("sync @ ")  # it has looked
        server.kill()
        said = tail.stderr.readline()
        assert said.startswith("anarchon tail: waiting for the store: Redis at ")
        assert "hunter2" not in said
        server.start()
        assert tail.stderr.readline() == "anarchon tail: the store is there again\n"
        assert tail.poll() is None


def run_once(store: Store) -> None:
    scheduler = store.scheduler(catch_up=0)
    scheduler.every("sync", "1h", lambda: None)
    with scheduler:
        assert scheduler.run_now("sync").status == "success"


@pytest.mark.parametrize("words", [["export"], ["tail"], ["jobs"], ["doctor"]])
def test_a_reader_that_went_away_is_no_error(quick, words):
    folder = quick.pop("folder")
    run_once(Store(quick["STORE"], quick["SPACE"]))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "anarchon", *words],
            cwd=folder,
            env=environment(**quick),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("interval", ["99ms", "soon", "0s"])
def test_an_interval_that_can_not_be_meant(interval):
    status, out, err = run("tail", "--interval", interval, "--backend", "memory://")
    assert (status, out) == (2, "")
    assert err.startswith("anarchon tail: --interval: ")
