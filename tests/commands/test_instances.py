"""Who shares a store: in words, as JSON, and what instances disagree about."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from anarchon import MemoryBackend, RedisBackend, Scheduler, SqliteBackend
from anarchon._commands import instances
from anarchon._commands_instances import clock_words, offset_words, some, state_words
from anarchon._values import Presences, Present
from anarchon.backends.base import ClaimBackend
from anarchon.instances import instances_of
from tests.commands.presences import MINUTE, present
from tests.facade.helpers import until

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
HOUR = 60 * MINUTE


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


def told(path) -> list[str]:
    """Return the lines below the table."""
    answer = instances(Scheduler(SqliteBackend(path)))
    assert (answer.status, answer.error) == (0, None)
    warnings = [f"{one['level']}: {one['text']}" for one in answer.data["warnings"]]
    assert list(answer.table.below) == warnings
    assert answer.text.splitlines()[len(answer.rows) + 1 :] == warnings
    return warnings


def test_instances_that_run_are_listed_and_those_that_stopped_are_gone(path):
    asking = Scheduler(SqliteBackend(path))
    one = Scheduler(SqliteBackend(path), instance_id="web-1", catch_up=0)
    one.cron("digest", "0 8 * * *", lambda: None)
    one.every("sync", "1d", lambda: None)
    two = Scheduler(SqliteBackend(path), instance_id="web-2", catch_up=0)
    two.once("new-year", "2100-01-01T00:00:00Z", lambda: None)
    with one, two:
        until(lambda: len(asking.instances()) == 2, "both are there")
        answer = instances(asking)
        heads, *rows = (re.split(r"  +", line) for line in answer.text.splitlines())
    assert heads == [
        *("instance", "host:pid", "state", "version", "jobs"),
        *("started (UTC)", "last seen", "next due", "clock offset"),
    ]
    assert [(row[0], row[2][:17], row[4]) for row in rows] == [
        ("web-1", "idle, expected at", "2"),
        ("web-2", "idle, expected at", "1"),
    ]
    shown = json.loads(answer.json)
    assert [one["jobs"] for one in shown["instances"]] == [["digest", "sync"], ["new-year"]]
    assert shown["warnings"] == []
    answer = instances(asking)
    assert (answer.status, answer.text, answer.note) == (0, "no instance is known to the store", "")


def read(**said):
    """Return what an instance is read as that says this of itself, at noon."""
    seen, expected = said.pop("seen", NOON_MS - HOUR), said.pop("expected", NOON_MS + HOUR)
    about = json.dumps({"name": "a", "heartbeat": 10_000})
    kept = Present("token", seen, expected, json.dumps(said), about)
    return instances_of(Presences((kept,), NOON_MS))[0]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "idle, expected at 13:00:00"),
        ({"expected": NOON_MS + 20 * HOUR}, "idle, expected at 2026-12-02 08:00:00"),
        ({"expected": NOON_MS - 30_000}, "idle, expected at 11:59:30"),
        ({"expected": 1 << 53}, "idle, nothing more is due"),
        ({"running": 2}, "running 2"),
        (
            {"expected": NOON_MS - 30_001},
            "silent since 11:00:00, was expected at 11:59:29",
        ),
        (
            {"running": 2, "expected": NOON_MS - 30_001, "seen": NOON_MS - 13 * HOUR},
            "silent since 2026-11-30 23:00:00, was expected at 11:59:29",
        ),
        ({"expected": -1}, "silent since 11:00:00"),
    ],
)
def test_states_in_words(said, words):
    assert state_words(read(**said), NOON) == words


def test_times_and_offsets_in_words():
    assert clock_words(NOON.replace(microsecond=250_000), NOON) == "12:00:00"
    assert clock_words(NOON.replace(year=2027), NOON) == "2027-12-01 12:00:00"
    assert [offset_words(one) for one in (0.0, 0.0124, -9.9994, -3600.0)] == [
        *("+0 ms", "+12 ms", "-9999 ms", "-3600 s"),
    ]
    assert some(["a"]) == "a"
    assert some(list("abcdefgh")) == "a, b, c, d, e and 3 more"


def test_what_agrees_is_no_warning(path):
    present(path, "web-1")
    present(path, "web-2", pid=9)
    assert told(path) == []


def test_schedules_that_differ(path):
    present(path, "web-1", jobs={"sync": "00000001", "digest": "1", "both": "1"})
    present(path, "web-2", jobs={"sync": "00000002", "digest": "2"})
    present(path, "web-3", jobs={"sync": "00000002", "both": "1"})
    present(path, "gone", jobs={"sync": "00000003", "both": "3"}, expected=-HOUR)
    first, second = told(path)
    assert first.startswith("note: the schedule of digest differs between web-1, web-2: so it is")
    assert second.startswith("note: the schedule of sync differs between web-1, web-2, web-3: so")


def test_jobs_that_differ_between_the_same_instances_are_one_warning(path):
    for name in ("web-1", "web-2"):
        present(path, name, jobs={f"job-{number}": name for number in range(7)})
    [line] = told(path)
    said = "note: the schedules of job-0, job-1, job-2, job-3, job-4 and 2 more differ between"
    assert line.startswith(f"{said} web-1, web-2: ")


def test_different_editions_of_time_zones(path):
    present(path, "web-1", tzdata="2025b")
    present(path, "web-2", tzdata="2026a")
    present(path, "web-3", tzdata="2025b")
    present(path, "gone", tzdata="2020a", expected=-HOUR)
    [line] = told(path)
    assert line.startswith(
        "note: instances have different time zone databases: 2025b on web-1, web-3; 2026a on"
        " web-2. "
    )


def test_two_processes_with_one_id(path):
    present(path, "web", pid=7)
    present(path, "web", pid=9)
    present(path, "web", pid=11, expected=-HOUR)
    [line] = told(path)
    assert re.match(r"wrong: 2 processes have the id web: box:7 since \S+ \S+, box:9 since ", line)


def test_one_that_came_again_under_its_name_is_not_surely_two(path):
    """As the process of a container that died, whose slot is still to come."""
    present(path, "web", pid=1, seen=-HOUR)
    present(path, "web", pid=1, started=now_ms() - HOUR // 2)
    [line] = told(path)
    assert line.startswith("note: the id web is there 2 times: box:1 since ")
    # Until the first one is heard from again: then there are two of them.
    present(path, "web", pid=1, seen=-MINUTE)
    [line] = told(path)
    assert line.startswith("wrong: 3 schedulers have the id web: ")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def test_the_start_of_another_host_is_compared_by_the_clock_of_the_store(path):
    """The second one's host is an hour behind: it started half an hour ago."""
    present(path, "web", pid=1, seen=-HOUR)
    present(path, "web", pid=2, started=now_ms() - 3 * HOUR // 2, offset=3600.0)
    [line] = told(path)
    assert line.startswith("note: the id web is there 2 times")


def test_whoever_says_nothing_of_itself_disagrees_with_nobody(path):
    for _ in range(2):
        present(path, "x", **dict.fromkeys(("name", "host", "version", "tzdata")))
    present(path, "web-1", jobs="none", pid="x", started=-1, offset="y")
    assert told(path) == []


def test_names_move_no_cursor(path):
    present(path, "web\x1b[2J\n1", host="a\u202eb", tzdata="x\ny")
    present(path, "web-2")
    answer = instances(Scheduler(SqliteBackend(path)))
    assert "\x1b" not in answer.text
    assert "\u202e" not in answer.text
    assert len(answer.text.splitlines()) == 4
    assert json.loads(answer.json)["instances"][0]["instance_id"] == "web\x1b[2J\n1"


def test_a_thousand_jobs_may_be_more(path):
    present(path, "web-1", jobs={f"job-{number}": "1" for number in range(1000)})
    assert "  1000 or more  " in instances(Scheduler(SqliteBackend(path))).text


def test_a_file_that_is_not_there_yet_and_a_store_that_keeps_nothing_of_the_kind(path):
    answer = instances(Scheduler(SqliteBackend(path)))
    assert answer.text == "no instance is known to the store"
    assert "there is no such file yet" in answer.note
    assert not path.exists()

    class Other(MemoryBackend):
        instances = ClaimBackend.instances

    answer = instances(Scheduler(Other()))
    assert answer.text.splitlines()[1:] == ["this store keeps nothing of instances"]


def test_a_store_that_is_down_has_status_1():
    answer = instances(Scheduler(RedisBackend("redis://:hunter2@127.0.0.1:1/0")))
    assert answer.status == 1
    assert "127.0.0.1:1" in answer.error
    assert "hunter2" not in answer.error
