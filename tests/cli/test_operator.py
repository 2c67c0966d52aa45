"""What an operator asks and orders: exact output, in colour, as JSON, and on each store."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module

import pytest

from anarchon.cli import main
from anarchon.testing import ManualClock
from tests.cli.runner import run
from tests.commands.helpers import environment
from tests.commands.stores import STORES, Waiting, store_on

START = datetime(2026, 12, 1, 9, tzinfo=UTC)  # 11:00 in Athens
TABLE = """\
job     slot (UTC)           in Europe/Athens           attempt  status   took  reason     instance
sync    2026-12-02 06:00:00  2026-12-02 08:00:00+02:00  1        success  0 ms  scheduled  web-1
digest  2026-12-02 06:00:00  2026-12-02 08:00:00+02:00  1        failed   0 ms  scheduled  web-1\
     ValueError: no such table
sync    2026-12-02 05:00:00  2026-12-02 07:00:00+02:00  1        success  0 ms  scheduled  web-1
"""
SYNC = "sync @ 2026-12-01T10:00:00.000Z"


@pytest.fixture
def used(shop, monkeypatch):
    """The same folder, after 21 hours in a time of its own, of which one was a pause of sync."""
    monkeypatch.syspath_prepend(shop)
    scheduler = import_module("shop").scheduler
    clock = ManualClock(START)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1h")
        scheduler.pause("sync")
        clock.advance("1h")
        scheduler.resume("sync")
        clock.advance("19h")
    del sys.modules["shop"]
    return shop


def said(*words: str, status: int = 0) -> list[str]:
    result = run(*words)
    assert (result.status, result.err) == (status, "")
    return result.out.splitlines()


def answered(*words: str, status: int = 0) -> dict:
    result = run(*words, "--json")
    assert (result.status, result.err) == (status, "")
    return json.loads(result.out)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def in_colour(monkeypatch):
    """Return a function that runs a command on a terminal of some width."""

    def shown(*words: str, columns: int = 200) -> str:
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.delenv("NO_COLOR", raising=False)
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit):
            main(list(words))
        return out.getvalue()

    return shown


def test_history(used):
    assert run("history", "-n", "3", "--tz", "Europe/Athens").out == TABLE
    [digest] = answered("history", "digest", "--status", "failed", "--tz", "Asia/Tokyo")["runs"]
    assert digest["local"] == "2026-12-02T15:00:00.000+09:00"
    assert digest["error"] == "ValueError: no such table"
    assert "local" not in answered("history", "digest")["runs"][0]
    assert said("history", "digest", "--status", "lost") == ["no runs"]
    assert "Invalid value for '--status'" in run_err("history", "--status", "good")


def run_err(*words: str) -> str:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    return err


def test_outcomes_have_colours_on_a_terminal_of_any_width(used, in_colour):
    for columns in (200, 40):
        text = in_colour("history", "-n", "99", columns=columns)
        assert "\x1b[32msuccess\x1b[0m" in text
        assert "\x1b[1;31mfailed\x1b[0m" in text
        assert "\x1b[90mskipped\x1b[0m" in text
    assert "─" in in_colour("history")
    assert "\x1b" not in run("history").out


def test_explain(used):
    assert said("explain", "sync", "2026-12-01 10:00") == [
        f"{SYNC}: success",
        "  attempt 1 (scheduled) on web-1, started 2026-12-01T10:00:00.000Z: success after 0 ms",
    ]
    assert said("explain", "sync", "2026-12-01 13:00", "--tz", "Europe/Athens") == [
        "sync @ 2026-12-01T11:00:00.000Z: skipped: the job was paused",
        "  the slot is 2026-12-01 13:00:00+02:00 in Europe/Athens",
    ]
    slot = 1_796_119_200_000
    assert answered("explain", "sync", str(slot))["outcome"] == "success"
    assert answered("explain", "sync", str(slot), "--backend", "sqlite:///jobs.db")["slot"] == slot
    [line] = said("explain", "digest", "2026-12-01T09:30Z")
    assert line.startswith("digest @ 2026-12-01T09:30:00.000Z: no slot: the job is not due then")
    assert "slot: 'soon' is no slot" in run_err("explain", "sync", "soon")
    assert "did you mean 'sync'?" in run_err("explain", "snyc", "0")


def test_jobs_and_what_is_paused(shop, in_colour):
    heads, sync, digest = said("jobs")
    columns = ["job", "schedule", "next slot (UTC)", "in", "paused"]
    assert re.split("  +", heads) == columns
    assert re.fullmatch(r"sync    Every\('1h'\) +\S+ \d\d:00:00  \S+ +- +customers", sync)
    assert digest.startswith("digest  Cron('0 8 * * 1-5', timezone='Europe/Athens')  ")
    assert said("pause", "sync", "--for", "1h30m") == [
        "sync is paused on every instance, for 1h30m"
    ]
    assert said("jobs")[1].split()[-2:] == ["yes", "customers"]
    assert "\x1b[1;33myes\x1b[0m" in in_colour("jobs")
    monkey = answered("jobs", "--timezone", "Asia/Tokyo")
    assert [(job["paused"], job["next_local"][-6:]) for job in monkey["jobs"]] == [
        (True, "+09:00"),
        (False, "+09:00"),
    ]
    assert answered("pause") == {"job": None, "paused": True, "duration_ms": None}
    assert said("jobs")[-1] == "every job is paused"
    assert said("resume") == [
        "the pause of every job is over; paused by themselves are still: sync"
    ]
    assert answered("resume", "sync") == {"job": "sync", "paused": False}
    assert "did you mean 'sync'?" in run_err("pause", "snyc")
    assert "for how long: 'soon' is not a duration" in run_err("pause", "--for", "soon")


def test_run_now(shop):
    printed, line = said("run-now", "sync", "--data", '{"day": 3}')
    assert printed == "syncing {'day': 3}"
    assert re.fullmatch(r"sync @ \S+Z: success, attempt 1, \d+ ms, on web-1", line)
    result = run("run-now", "sync", "--json")
    assert (result.status, json.loads(result.out)["manual"]) == (0, True)
    assert result.err == "syncing None\n"
    first, *trace = said("run-now", "digest", status=1)
    assert re.fullmatch(r"digest @ \S+Z: failed, attempt 1, \d+ ms, on web-1", first)
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ValueError: no such table"
    assert "is no JSON" in run_err("run-now", "sync", "--data", "{")
    assert "did you mean 'sync'?" in run_err("run-now", "snyc")


def test_trigger(shop):
    run_id, what, when = said("trigger", "sync", "--data", '{"day": 3}')
    assert what == "sync is to run once, on any instance that has it"
    assert when.startswith("it is taken with the fleet's next claim, at the latest ")
    assert answered("trigger", "sync")["next_slot"] % 3_600_000 == 0
    alone = answered("trigger", "sync", "--backend", "sqlite:///jobs.db")
    assert alone["next_slot"] is None
    assert "is no JSON" in run_err("trigger", "sync", "--data", "{")
    assert "did you mean 'sync'?" in run_err("trigger", "snyc")
    with import_module("shop").scheduler as scheduler:
        while len(found := scheduler.history("sync", status="success")) < 3:
            continue
    assert {run.run_id for run in found} > {run_id, alone["run_id"]}


def test_backfill(shop):
    times = ("--from", "2026-11-01T08:30", "--to", "2026-11-01T11:30")
    first, second, what, _, more = said("backfill", "sync", *times, "-n", "2")
    assert (first[:9], first[-2:], second) == ("backfill-", "-1", f"{first[:-1]}2")
    assert what.startswith("sync: 2 slots, from 2026-11-01T09:00:00.000Z to 2026-11-01T10:00:00.00")
    assert more == "there are more: go on with --from 2026-11-01T11:00:00.000Z"
    slots = [
        run["slot"] for run in answered("backfill", "sync", *times, "--tz", "Asia/Tokyo")["runs"]
    ]
    assert slots == [1_793_491_200_000 + hour * 3_600_000 for hour in range(3)]
    [line] = said("backfill", "sync", "--from", "1", "--to", "2", status=1)
    assert line.startswith("sync: no slot was due from 1970-01-01T00:00:00.001Z to ")
    assert answered("backfill", "sync", "--from", "1", "--to", "2", status=1)["runs"] == []
    assert "--from: 'soon' is no instant" in run_err(
        "backfill", "sync", "--from", "soon", "--to", "1"
    )
    assert "Missing option '--to'" in run_err("backfill", "sync", "--from", "0")
    assert "'-n' / '--limit': 1001" in run_err("backfill", "sync", *times, "-n", "1001")


def test_next_of_a_job(shop):
    after = ("--after", "2026-12-01T00:00Z", "-n", "2")
    lines = said("next", "digest", "--app", "shop:scheduler", *after)
    assert lines[0] == "digest: at 08:00, Monday through Friday (Europe/Athens)"
    assert lines[3:] == [
        "#  local time                   UTC                since previous  clock",
        "1  Tue 2026-12-01 08:00 +02:00  2026-12-01 06:00Z  in 6h",
        "2  Wed 2026-12-02 08:00 +02:00  2026-12-02 06:00Z  +1d",
    ]
    assert said("next", "digest", *after) == lines  # by the environment
    shown = answered("next", "digest", "--tz", "Asia/Tokyo", *after)
    assert (shown["job"], shown["timezone"]) == ("digest", "Asia/Tokyo")
    assert shown["schedule"] == "Cron('0 8 * * 1-5', timezone='Europe/Athens')"
    assert shown["slots"][0]["local"] == "2026-12-01T15:00:00.000+09:00"
    # The app is named, but this is no job and a schedule.
    assert said("next", "0 8 * * *", *after)[0] == "at 08:00, every day"
    assert "no job '0 8 * * *'" in run_err("next", "0 8 * * *", "--app", "shop:scheduler")
    told = run_err("next", "digst")
    assert told.startswith(
        "anarchon next: no job 'digst' on this scheduler; did you mean 'digest'?"
    )
    assert "; and it is no schedule: " in told


def test_next_of_a_name_without_an_app():
    assert run_err("next", "digest").endswith(
        "; if it is a job, give --app module:scheduler (or set ANARCHON_APP)\n"
    )


def test_a_schedule_of_somebody_s_own(shop):
    (shop / "own.py").write_text(
        "from datetime import timedelta\n"
        "from shop import scheduler\n"
        "class Own:\n"
        "    def __init__(self): self.asked = 0\n"
        "    def next_after(self, t):\n"
        "        self.asked += 1\n"
        "        if self.asked > 2: raise OSError('no calendar')\n"
        "        return t.replace(microsecond=0) + timedelta(seconds=1)\n"
        "    def latest(self, t): return t.replace(microsecond=0)\n"
        "    def __repr__(self): return 'Own()'\n"
        "scheduler.schedule('own', Own(), lambda: None)\n"
    )
    lines = said("next", "own", "--app", "own:scheduler", "-n", "1")
    assert lines[0] == "own: Own()"
    sys.modules.pop("own")
    sys.modules.pop("shop")
    told = run_err("next", "own", "--app", "own:scheduler", "-n", "3")
    assert told == (
        "anarchon next: job 'own': its schedule can't be computed: OSError: no calendar\n"
    )


def test_doctor(shop, in_colour):
    run("run-now", "sync")
    lines = said("doctor")
    assert lines[0] == "ok     jobs: 2 jobs"
    path = re.escape(str(shop))
    form = rf"ok     store: <SqliteBackend '{path}/jobs.db' namespace='anarchon'>: sqlite 3[\d.]+"
    assert re.fullmatch(form, lines[1])
    assert in_colour("doctor").startswith("\x1b[32mok\x1b[0m     jobs: 2 jobs\n")
    result = run("doctor", "--backend", "memory://", "--json")
    assert result.status == 1
    assert json.loads(result.out)["findings"][0]["level"] == "wrong"


@pytest.mark.parametrize(
    ("line", "found"), [("pa", "pause"), ("tri", "trigger"), ("history --status ski", "skipped")]
)
def test_completion_is_that_of_click(line, found):
    words = {"COMP_WORDS": f"anarchon {line}", "COMP_CWORD": str(len(line.split()))}
    done = subprocess.run(
        [sys.executable, "-m", "anarchon"],
        env=environment(_ANARCHON_COMPLETE="bash_complete", **words),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"plain,{found}\n", "")


@pytest.mark.parametrize("variant", STORES)
def test_the_store_alone(variant, shared_server, tmp_path):
    with store_on(variant, shared_server, tmp_path) as store:
        words = ("--backend", store.url, "--namespace", store.namespace)
        service, handler = store.scheduler(), Waiting()
        service.every("sync", "1h", handler)
        with service:
            assert handler.begun.wait(10)
            slot = str(handler.slot)
            assert answered("explain", "sync", slot, *words)["outcome"] == "running"
            assert answered("pause", "sync", *words)["paused"]
            assert answered("cancel", "sync", slot, *words)["cancelled"]
            while not answered("history", "--status", "interrupted", *words)["runs"]:
                continue
            assert not answered("cancel", "sync", slot, *words, status=1)["cancelled"]
            assert not answered("resume", "sync", *words)["paused"]
        [line] = said("export", *words)
        assert json.loads(line)["status"] == "interrupted"
