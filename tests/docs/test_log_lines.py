"""The log lines on the pages are real."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anarchon import ConfigurationError, Scheduler, SqliteBackend
from anarchon._core_schedules import ANSWER_WITHIN, SUSPENDED_FOR
from anarchon.testing import ManualClock
from tests.docs.pages import DATED, PAGES, blocks, coded, said_lines, shape, text_of


def test_text_is_log_lines_and_each_is_compared_with_real_ones():
    """In tests/docs/test_quick_start.py, and below."""
    assert {page for page in PAGES if blocks(page, "text")} == {"quick-start.md", "schedules.md"}
    lines = [line for page in PAGES for line in said_lines(page)]
    assert [line for line in lines if not line.startswith("[anarchon] ")] == []


@pytest.mark.parametrize("page", ["quick-start.md", "schedules.md"])
def test_moments_are_dates(page):
    for moment in DATED.findall("\n".join(said_lines(page))):
        assert datetime.fromisoformat(moment).utcoffset() is not None


class Broken:
    """A schedule that raises until it is mended."""

    mended = False
    slot = datetime(2027, 1, 1, tzinfo=UTC)

    def next_after(self, t):
        later = self.slot if t < self.slot else None
        return later if self.mended else 1 / 0

    def latest(self, t):
        return None if self.mended else 1 / 0


def test_how_long_a_schedule_has_and_when_it_is_asked_again():
    """What it does then is shown by tests/facade/test_schedules_of_others.py."""
    assert (ANSWER_WITHIN, SUSPENDED_FOR) == (1.0, 60.0)
    text = text_of("schedules.md")
    assert "takes longer than a second" in text
    assert "asked again each minute" in text


def test_a_schedule_that_raises_is_told_of_once_and_asked_again(tmp_path, monkeypatch, caplog):
    clock, broken, ran = ManualClock(), Broken(), []
    scheduler = Scheduler(SqliteBackend(tmp_path / "jobs.db"), catch_up=0)
    clock.attach(scheduler)
    scheduler.schedule("release", broken, lambda: None)
    scheduler.every("other", "10s", lambda: ran.append(clock.now()))
    caplog.set_level("INFO", "anarchon")
    with scheduler:
        clock.advance("10m")
        assert len(ran) == 60
        health = scheduler.health()
        with pytest.raises(ConfigurationError, match="ZeroDivisionError"):
            scheduler.next_slots("release")
        broken.mended = True
        clock.advance("1m")
        assert scheduler.health().reasons == ()
    real = [shape(f"[anarchon] {record.getMessage()}") for record in caplog.records]
    shown = [shape(line) for line in said_lines("schedules.md")]
    assert [line for line in shown if line not in real] == []
    assert sum("suspended" in line for line in real) == 1
    assert health.ok
    # What the page about handlers says of it.
    section = text_of("handlers.md").partition("## When a job doesn't run")[2]
    page = coded(" ".join(section.split()))
    assert set(health.reasons) < set(page)
    for start in ("suspended, its schedule can't be computed:", "goes on, its schedule can be"):
        assert any(said.startswith(start) for said in page)
        assert any(f": {start}" in line for line in real)
