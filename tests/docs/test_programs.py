"""Every program on the pages runs, and every session prints what the page shows.

Each page is run from top to bottom, in one namespace and in an empty folder. Its schedulers
are on a manual clock: nothing is due by accident, and waits take no time.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from anarchon._clock import HANDLER_PATIENCE
from tests.docs.pages import PAGES, blocks, environment, text_of

KNOWN = {
    "python",
    "pycon",
    "console",
    "ini",
    "promql",
    "sql",
    "text",
    "yaml",
    "{toctree}",
    "{eval-rst}",
}
# Each block that can't be run: its page and its reason. A new one needs a good one.
NOT_RUN: list[tuple[str, str]] = []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page):
    assert {block.language for block in blocks(page)} <= KNOWN


def test_blocks_that_can_not_run_are_few_and_say_why():
    marked = [(block.page, block.not_run) for page in PAGES for block in blocks(page)]
    assert [mark for mark in marked if mark[1]] == NOT_RUN


def test_the_first_page(run_page, capsys):
    page = run_page("index.md")
    assert page.schedulers[0].state == "running"
    page.clock.advance("10s")
    assert capsys.readouterr().out == "syncing\n" * 2  # the first one is caught up
    assert Path("jobs.db").exists()


def test_the_page_about_schedules(run_page):
    page = run_page("schedules.md")
    jobs = {job.name: job.schedule for job in page.schedulers[0].jobs}
    assert set(jobs) == {"sync", "digest", "payroll", "open", "swim", "release"}
    assert (jobs["digest"].timezone, jobs["payroll"].timezone) == ("Europe/Athens",) * 2
    assert jobs["release"] is page.names["releases"]


def test_a_zone_of_a_scheduler_is_not_that_of_an_object(run_page):
    """And with `season` in its zone, summer begins and ends at midnight in Athens."""
    page = run_page("schedules.md")
    text, thing = page.schedulers[1].jobs
    assert (text.schedule.timezone, thing.schedule.timezone) == ("Europe/Athens", "UTC")
    season, start = page.names["season"], datetime(2026, 1, 1, tzinfo=UTC)
    assert season.next_after(start) == datetime(2026, 6, 1, 3, tzinfo=UTC)
    assert season.timezone == "Europe/Athens"


def test_the_page_about_tests(run_page):
    """Run each test that it shows, twice: they leave nothing behind."""
    names = run_page("testing.md").names
    tests = [name for name in names if name.startswith("test_")]
    assert len(tests) == 13
    for name in tests * 2:
        names[name]()
        names["reports"].clear()
        names["answer"].clear()


def test_the_fixtures_on_the_page_about_tests(tmp_path):
    for block in blocks("testing.md", "python"):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_for_how_long_the_clock_stands_still_for_a_handler():
    assert HANDLER_PATIENCE == 0.25
    assert "for a quarter of a second of real time" in " ".join(text_of("testing.md").split())


def test_a_schedule_of_ones_own_keeps_the_laws(run_page):
    releases = run_page("schedules.md").names["releases"]
    first, last = releases.moments
    second = (last - first) / 2
    for t in (first - second, first, first + second, last, last + second):
        following, latest = releases.next_after(t), releases.latest(t)
        assert following is None or following > t
        assert latest is None or latest <= t
        assert following is None or releases.latest(following) == following
        assert latest is None or releases.next_after(latest) == following


def test_the_page_about_handlers(run_page):
    """Run the page, and by hand every job that the page itself doesn't run."""
    page = run_page("handlers.md")
    names, scheduler = page.names, page.schedulers[0]

    def status_of(name):
        return scheduler.run_now(name).status

    assert status_of("rollup") == "success"
    before, slot = names["windows"][0]
    assert slot - before <= 3_600_000
    assert before % 3_600_000 == 0
    assert scheduler.run_now("poll").error == "TimeoutError: still running after 5 s"
    assert status_of("export") == "success"
    assert names["exported"] == ["Ada", "Grace"]
    assert status_of("poll") == "success"
    assert scheduler.run_now("backup").error == "TimeoutError: still running after 3 s"
    assert (status_of("fetch"), status_of("copy")) == ("success",) * 2
    assert names["copied"] == [0, 1, 2, 3, 4]
    assert status_of("broken") == "failed"
    scheduler.stop()
    assert names["failures"][-1] == "broken failed: ZeroDivisionError: division by zero"


def test_a_checkpoint_on_the_page_about_handlers(run_page):
    """What was saved is where the next attempt begins."""
    names = run_page("handlers.md").names
    saved, signal = [], SimpleNamespace(raise_if_aborted=lambda: None)
    names["copy"](SimpleNamespace(checkpoint=3, save=saved.append, signal=signal))
    assert (names["copied"], saved) == ([3, 4], [4, 5])


def test_around_is_left_when_a_handler_raises(run_page, capsys):
    around = run_page("handlers.md").names["around"]
    capsys.readouterr()
    with contextlib.suppress(ZeroDivisionError), around(SimpleNamespace(name="bad")):
        _ = 1 / 0
    assert capsys.readouterr().out == "before bad\nafter bad\n"
