"""How much a page asks for does not grow with what there is."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from anarchon import Scheduler
from anarchon.testing import ManualClock
from anarchon.web import _pages as pages
from anarchon.web import dashboard
from tests.commands.presences import present
from tests.web.client import SECRET, Browser
from tests.web.conftest import NOON, NOON_MS, Past

JOBS, RUNS = 200, 10_000
MINUTE = 60_000
OLD = NOON_MS - (RUNS - 10) * MINUTE
FILL = """
INSERT INTO anarchon_attempt
WITH RECURSIVE job(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM job WHERE j < :jobs - 1),
    run(r) AS (SELECT :runs UNION ALL SELECT r - 1 FROM run WHERE r > 1)
SELECT 'anarchon', printf('job-%03d', j), :noon - r * 60000, '', 1,
    CASE WHEN r % 100 = 7 THEN 'failed' ELSE 'success' END, NULL, 'scheduled', 'web-1:7',
    :noon - r * 60000 + 50, :noon - r * 60000 + 250, 200, NULL, NULL
FROM job, run
"""
# The questions and the lines of history that each page may ask for.
BOUNDS = {
    "/": (pages.JOBS + 1, pages.JOBS * pages.STRIP),
    "/?from=175": (pages.JOBS + 1, pages.JOBS * pages.STRIP),
    "/?q=job-1": (pages.JOBS + 1, pages.JOBS * pages.STRIP),
    "/job?name=job-100": (2, pages.LANES + 1),
    f"/job?name=job-100&before={OLD}.1.": (2, pages.LANES + 1),
    "/runs": (1, pages.RUNS + 1),
    "/instances": (1, 0),
    "/instances?from=150": (1, 0),
    "/runs?status=failed": (1, pages.RUNS + 1),
    "/runs?status=lost": (1, 0),
    "/runs?job=job-003&status=lost": (1, 0),
    f"/runs?before={OLD}.1.&at=job-100": (1, pages.RUNS + 1),
    f"/run?name=job-100&slot={NOON_MS - MINUTE}": (1, pages.ATTEMPTS),
    f"/run?name=job-100&slot={OLD}": (1, pages.ATTEMPTS),
    f"/run?name=job-100&slot={OLD + 1}": (2, pages.ATTEMPTS + 1000),
    f"/run?name=job-100&slot={NOON_MS - 900 * MINUTE + 1}": (13, pages.ATTEMPTS + 2000),
}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store with two million attempts, and somebody who may act."""
    folder = tmp_path_factory.mktemp("full")
    past = Past(folder / "jobs.db")
    with sqlite3.connect(past.path) as connection:
        [(index,)] = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'anarchon_history'"
        )
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("DROP INDEX anarchon_history")  # faster in one go, afterwards
        connection.execute(FILL, {"jobs": JOBS, "runs": RUNS, "noon": NOON_MS})
        connection.execute(index)
    connection.close()
    for number in range(JOBS):
        names = {f"job-{job:03}": "1" for job in range(JOBS)}
        present(past.path, f"web-{number}", at_ms=NOON_MS, jobs=names)
    scheduler = Scheduler(past.store)
    ManualClock(NOON).attach(scheduler)
    for number in range(JOBS):
        scheduler.every(f"job-{number:03}", "1m", lambda: None)
    board = dashboard(scheduler, authorize=lambda _: "act", secret=SECRET)
    yield past.store, Browser(board)
    past.close()
    shutil.rmtree(folder)  # 300 MB, which pytest would keep for some runs


def test_a_page_asks_no_more_than_a_few_questions(full):
    """All of them in one test, so that one process writes the two million attempts."""
    store, browser = full
    for address, (most_asked, most_lines) in BOUNDS.items():
        store.asked = store.handed_out = 0
        answer = browser.get(address)
        assert answer.status == (404 if address.endswith(f"slot={OLD + 1}") else 200), address
        assert 0 < store.asked <= most_asked, address
        assert store.handed_out <= most_lines, address
        assert len(answer.body) < 250_000, address
    check_that_pages_are_full(browser)


def check_that_pages_are_full(browser):
    """So the bounds above are those of pages with as much on them as there can be."""
    page = browser.get("/").page
    assert len(page.values("data-job")) == pages.JOBS
    assert sum(tag == "rect" for tag, _ in page.tags) == pages.JOBS * pages.STRIP
    assert len(browser.get("/instances").page.values("data-instance")) == pages.INSTANCES
    page = browser.get("/job?name=job-100").page
    assert sum(given.get("class") == "lane" for _, given in page.tags) == pages.LANES
    assert len(browser.get("/runs?status=failed").page.values("data-status")) == pages.RUNS


def test_a_button_asks_once(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    browser = browse("act")
    token = browser.get("/").page.forms[-1]["token"]
    written = []
    past.store._write_once = lambda *how: written.append(how)
    past.store.asked = 0
    assert browser.post({"do": "pause", "name": "sync", "token": token}).status == 303
    assert (past.store.asked, len(written)) == (0, 1)
