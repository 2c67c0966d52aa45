"""The pages on each kind of store: places in history, pauses and names are kept differently."""

from __future__ import annotations

import uuid

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.web import _pages, dashboard
from tests.processes.places import backend_at
from tests.servers.places import place_on
from tests.web.client import SECRET, Browser

NAME = 'a/b & "100%" <b>ת:..'


@pytest.fixture(params=["memory", "redis-8.2", "postgres-18"])
def backend(request, shared_server):
    """Give a test a store of its own."""
    if request.param == "memory":
        yield MemoryBackend()
        return
    with place_on(request.param, shared_server) as place:
        yield backend_at(place.url, namespace=f"test {uuid.uuid4()}")


def bad():
    raise ValueError("no such <table>")


def walked(browser, address):
    """Return all pages from one on, by their links to older ones."""
    answers = [browser.get(address)]
    for _ in range(10):
        found = [link for link, text in answers[-1].page.links if text.startswith("Older")]
        if not found:
            return answers
        answers.append(browser.follow(answers[-1], found[0]))
    raise AssertionError("there is always one more page")


def test_pages_before_a_start_while_it_runs_and_after_it(backend, monkeypatch):
    scheduler = Scheduler(backend, catch_up=0)
    scheduler.every(NAME, "1d", lambda: None)
    scheduler.every("bad", "1d", bad)
    browser = Browser(dashboard(scheduler, authorize=lambda _: "act", secret=SECRET))
    before = browser.get("/")
    if before.status == 200:
        assert before.page.values("data-job") == [NAME, "bad"]
        assert "No runs." in browser.get("/runs").page.text
    else:  # PostgreSQL without its tables
        assert "anarchon schema" in before.page.text
    with scheduler:
        for name in (NAME, NAME, "bad", NAME, "bad"):
            scheduler.run_now(name)
        page = browser.get("/").page
        assert "The last 3 runs: 3 success" in page.values("aria-label")
        page = browser.follow(browser.press(page, "pause", NAME)).page
        assert page.source.count('class="pill paused"') == 1
    monkeypatch.setattr(_pages, "RUNS", 2)
    monkeypatch.setattr(_pages, "LANES", 2)
    for address, ends in {
        "/runs": ["failed", "success", "failed", "success", "success"],
        "/runs?status=failed": ["failed", "failed"],
        "/job?name=bad": ["failed", "failed"],
    }.items():
        pages = [answer.page for answer in walked(browser, address)]
        # Two of one millisecond are in the order of their names.
        assert sorted(one for page in pages for one in page.values("data-status")) == sorted(ends)
        keys = [key for page in pages for key in page.values("data-key") if "-" in key]
        assert len(set(keys)) == len(keys) == len(ends)
    runs = browser.get("/runs?status=failed")
    link = next(link for link, _ in runs.page.links if "slot=" in link)
    page = browser.follow(runs, link).page
    assert "ValueError: no such <table>" in page.text
    assert "Traceback" in page.text
    page = browser.follow(browser.press(browser.get("/").page, "resume", NAME)).page
    assert "paused" not in page.text
