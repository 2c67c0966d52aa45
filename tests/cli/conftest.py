"""An app in a folder, whose commands are run there."""

from __future__ import annotations

import sys

import pytest

SHOP = """
from functools import partial

from anarchon import Scheduler, SqliteBackend

scheduler = Scheduler(
    SqliteBackend("jobs.db"), instance_id="web-1", lease="3s", heartbeat="500ms", catch_up=0
)

@scheduler.every("sync", "1h", description="customers")
def sync(ctx):
    print("syncing", ctx.data)

@scheduler.cron("digest", "0 8 * * 1-5", timezone="Europe/Athens")
def digest():
    raise ValueError("no such table")

def create():
    return scheduler

late = partial(create)

class Other:
    def __call__(self, environ, start_response): ...

other = Other()

class Holder:
    inner = scheduler
"""


@pytest.fixture(autouse=True)
def no_source(monkeypatch):
    for name in ("APP", "BACKEND", "NAMESPACE"):
        monkeypatch.delenv(f"ANARCHON_{name}", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of shop.py, in which the test is, and whose modules nobody else sees."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name.partition('.')[0]}.py").exists():
            del sys.modules[name]


@pytest.fixture
def shop(folder, monkeypatch):
    """The same, where the environment names the app."""
    monkeypatch.setenv("ANARCHON_APP", "shop:scheduler")
    return folder
