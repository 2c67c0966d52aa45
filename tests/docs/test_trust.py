"""What the pages about guarantees and about second attempts say is so."""

from __future__ import annotations

import inspect
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest

from anarchon import MemoryBackend, PostgresBackend, RedisBackend, Scheduler, SqliteBackend
from anarchon.backends.base import LeaseBackend
from anarchon.testing import ManualClock
from tests.docs.pages import coded, rows, text_of

SAFE = "safe-to-run-twice.md"
LEVELS = rows("guarantee.md", "level", "what", "Redis, Valkey")
BACKENDS = (RedisBackend, PostgresBackend, SqliteBackend, MemoryBackend)


# --- the levels -------------------------------------------------------------------


def test_the_levels_are_those_of_the_page_about_stores():
    """Line by line, for the lines that both pages have."""
    stores = [row[1:] for row in rows("stores.md", "what", "Redis, Valkey")]
    levels = [row[2:] for row in LEVELS]
    assert [row[0] for row in LEVELS] == ["0", "1", "2", "3", "4", "5"]
    assert stores[:5] == levels[:5]
    assert stores[6][0] == levels[5][0]


@pytest.mark.parametrize(("level", "method"), [("3", "fence"), ("4", "complete")])
def test_who_shares_transactions(level, method):
    (row,) = [row for row in LEVELS if row[0] == level]
    for cell, backend in zip(row[2:], BACKENDS, strict=True):
        has_its_own = getattr(backend, method) is not getattr(LeaseBackend, method)
        assert has_its_own == (cell != "no"), backend


def test_the_defaults_that_the_page_counts_with():
    options = inspect.signature(Scheduler).parameters
    assert (options["lease"].default, options["heartbeat"].default) == (30, None)
    assert "With `lease` 30 s and `heartbeat` 10 s" in text_of("guarantee.md")


def broken_off(handler, end, **options):
    """Break an attempt off, and return what history has of the run a while later."""
    clock, backend = ManualClock(), MemoryBackend()
    first, second = (Scheduler(backend, catch_up="1h") for _ in range(2))
    for scheduler in (first, second):
        clock.attach(scheduler)
        scheduler.every("job", "1h", handler, **options)
    first.start()
    clock.advance("1s")
    second.start()
    end(first)
    clock.advance("2m")
    second.stop()
    return [(run.attempt, run.status, run.detail) for run in second.history("job")]


def test_an_abandoned_run_is_not_handed_over():
    history = broken_off(lambda ctx: ctx.signal.sleep("1h"), Scheduler.stop, on_crash="abandon")
    assert [(attempt, status) for attempt, status, _ in history] == [(1, "interrupted")]


def test_the_program_about_never_twice(run_page, capsys):
    page = run_page("guarantee.md")
    (scheduler,) = page.schedulers
    assert scheduler.jobs[0].on_crash == "abandon"
    with scheduler:
        assert scheduler.run_now("launch").status == "success"
    assert capsys.readouterr().out == "attempt 1\n"


# --- how long a run waits -----------------------------------------------------------

GOES_ON = [(2, "success", None), (1, "interrupted", "handed over")]
TOO_OLD = [(1, "lost", "too old")]


def waited(catch_up, gap):
    """Break an attempt off, start another instance so much later, and return the history."""
    clock, backend = ManualClock(), MemoryBackend()
    first, second = (Scheduler(backend, catch_up=catch_up) for _ in range(2))
    for scheduler in (first, second):
        clock.attach(scheduler)
    slot = clock.now() + timedelta(hours=1)
    for scheduler in (first, second):
        scheduler.once("job", slot, lambda ctx: ctx.signal.sleep("5s"))
    first.start()
    clock.advance("1h")
    first.stop()
    clock.advance(gap)
    with second:
        clock.advance("10s")
        return [(run.attempt, run.status, run.detail) for run in second.history("job")]


@pytest.mark.parametrize(
    ("catch_up", "gap", "told"),
    [
        ("1h", "59m", GOES_ON),
        ("1h", "61m", TOO_OLD),
        (0, "89s", GOES_ON),
        (0, "91s", TOO_OLD),
        ("10s", "89s", GOES_ON),
    ],
)
def test_a_run_waits_for_the_catch_up_or_three_leases(catch_up, gap, told, caplog):
    assert waited(catch_up, gap) == told
    assert ("(too old)" in caplog.text) == (told is TOO_OLD)
    section = text_of("guarantee.md").partition("## How long a run waits")[2].split()
    assert "by default an hour, and 90 s with `catch_up=0`" in " ".join(section)


def test_a_job_that_is_gone_leaves_its_run_interrupted():
    """What rolling-deploys.md says: nobody is left who could close it."""
    clock, backend = ManualClock(), MemoryBackend()
    old, new = (Scheduler(backend, catch_up=0) for _ in range(2))
    for scheduler in (old, new):
        clock.attach(scheduler)
        scheduler.every("other", "1h", lambda: None)
    old.every("gone", "1h", lambda ctx: ctx.signal.sleep("5s"))
    with new:
        old.start()
        clock.advance("1h")
        old.stop()
        clock.advance("3h")
        assert [(run.status, run.detail) for run in new.history("gone")] == [GOES_ON[1][1:]]


def test_a_manual_run_ends_with_its_process():
    clock, backend = ManualClock(), MemoryBackend()
    first, second = (Scheduler(backend, catch_up=0) for _ in range(2))
    for scheduler in (first, second):
        clock.attach(scheduler)
        scheduler.every("job", "1h", lambda ctx: ctx.signal.sleep("5s"))
    with second:
        first.start()
        first.submit("job")
        clock.advance("1s")
        first.stop()
        clock.advance("10m")
        [run] = second.history("job")
    assert (run.manual, run.status, run.detail) == (True, "interrupted", "not handed over")
    assert '`interrupted`, "not handed over"' in text_of("handlers.md")


# --- second attempts ----------------------------------------------------------------


@pytest.fixture
def page(run_page):
    """The page about second attempts, with its scheduler started."""
    page = run_page(SAFE)
    page.schedulers[0].start()
    return page


def table(query):
    with closing(sqlite3.connect("shop.db")) as database:
        return database.execute(query).fetchall()


def test_every_job_of_the_page_runs(page):
    scheduler = page.schedulers[0]
    assert [job.name for job in scheduler.jobs] == [
        *("invoices", "hours", "totals", "copy", "payouts"),
    ]
    for job in scheduler.jobs:
        assert scheduler.run_now(job.name).status == "success", job.name
    assert [row[0] for row in table("SELECT customer FROM invoices")] == ["Ada", "Grace"]
    assert table("SELECT count(*), max(id) FROM copies") == [(1000, 1000)]
    assert len(page.names["payments"].paid) == 2


def test_the_test_of_the_page(page):
    page.names["test_invoices_are_safe_to_run_twice"]()


def test_the_test_of_the_page_notices_a_missing_key(page):
    with closing(sqlite3.connect("shop.db")) as database, database:
        database.execute("DROP TABLE invoices")
        database.execute("CREATE TABLE invoices (customer TEXT, slot INTEGER)")
    with pytest.raises(AssertionError):
        page.names["test_invoices_are_safe_to_run_twice"]()


def test_the_second_attempt_of_each_handler_changes_nothing(page):
    twice = page.names["twice"]
    with closing(sqlite3.connect("shop.db")) as database, database:
        database.execute("INSERT INTO sales VALUES (5, 7), (9, 4), (10, 1)")
    twice(page.names["hours"], slot=10, previous_slot=5)
    assert table("SELECT * FROM hours") == [(10, 11)]
    twice(page.names["copy"])
    assert table("SELECT count(*) FROM copies") == [(1000,)]
    twice(page.names["payouts"], name="payouts", slot=10)
    assert sorted(page.names["payments"].paid) == ["payouts-10-Ada", "payouts-10-Grace"]


def test_an_older_fence_changes_nothing(page):
    totals, customers = page.names["totals"], page.names["customers"]
    totals(SimpleNamespace(fence=20))
    customers.append("Alan")
    totals(SimpleNamespace(fence=10))
    assert table("SELECT value, fence FROM totals") == [(2, 20)]
    totals(SimpleNamespace(fence=30))
    assert table("SELECT value, fence FROM totals") == [(3, 30)]


def test_a_copy_that_is_stopped_goes_on_where_it_was(page, monkeypatch):
    """By a hand-over between two schedulers; the second begins with what the first saved."""
    begun = []

    class Stopped(BaseException):
        pass

    def source(after):
        begun.append(after)
        if len(begun) == 3:
            first.stop(0)
            raise Stopped
        return plain(after)

    plain = page.names["source"]
    monkeypatch.setitem(page.names, "source", source)
    backend = SqliteBackend("copies.db")
    first, second = (Scheduler(backend_of(backend), catch_up="1h") for _ in range(2))
    for scheduler in (first, second):
        page.clock.attach(scheduler)
        scheduler.every("copy", "1h", page.names["copy"])
    first.start()
    page.clock.advance("1s")
    with second:
        page.clock.advance("1m")
        statuses = [(run.attempt, run.status) for run in second.history("copy")]
    assert statuses == [(2, "success"), (1, "interrupted")]
    assert begun[:4] == [0, 100, 200, 200]
    assert table("SELECT count(*) FROM copies") == [(1000,)]


def backend_of(backend):
    return SqliteBackend(backend.database)


def test_the_links_name_sections_that_there_are():
    for page in ("handlers.md", "guarantee.md", "exactly-once.md"):
        for anchor in re.findall(rf"\({SAFE}#([a-z-]+)\)", text_of(page)):
            heads = re.findall(r"^##+ (.+)$", text_of(SAFE), re.MULTILINE)
            assert anchor in {head.lower().replace(" ", "-") for head in heads}


def test_what_does_not_help_is_no_way_out():
    """The options that the page names are options, with the values that it gives."""
    section = text_of(SAFE).partition("## What does not help")[2].partition("\n## ")[0]
    named = dict(word.split("=") for word in coded(section) if re.fullmatch(r'\w+=["\w]+', word))
    assert set(named) == {"overlap", "max_attempts", "on_crash"}
    Scheduler(MemoryBackend(), **{name: eval(value) for name, value in named.items()})
