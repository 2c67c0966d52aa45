"""`anarchon demo` as its users meet it: real processes, real signals, a real file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import anarchon
from anarchon import Scheduler, SqliteBackend
from anarchon._demo_instance import NAMESPACE

QUICK = ["--sync-every", "1s", "--report-every", "5s", "--report-work", "2500ms"]
LIMIT_SECONDS = 150.0

pytestmark = pytest.mark.serial  # hand-overs are timed, and each show has four processes


class Shown(NamedTuple):
    """What a whole show left: its exit status, its output, and the files in its folder."""

    status: int
    text: str
    left: list[str]


def start(folder: Path, *options: str, **changes) -> subprocess.Popen[str]:
    """Start the demo with an own folder for temporary files."""
    paths = [str(Path(anarchon.__file__).parent.parent), str(Path(__file__).parent)]
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "anarchon", "demo", *QUICK, *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **changes,
    )


def processes(folder: Path) -> list[int]:
    """Return the instances that work in a folder, by their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(os.fsencode(folder)) for word in command):
            found.append(int(path.parent.name))
    return found


def wait_until_gone(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while processes(folder) or list(folder.iterdir()):
        assert time.monotonic() < deadline, (processes(folder), list(folder.iterdir()))
        time.sleep(0.05)


def read_until(process: subprocess.Popen[str], pattern: str) -> list[str]:
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError("".join(lines))


def outcome(process: subprocess.Popen[str], folder: Path) -> Shown:
    """Wait until a show is over; return what it left."""
    try:
        text, _ = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.kill()
        process.communicate()
    return Shown(process.returncode, text, sorted(path.name for path in folder.rglob("*")))


@pytest.fixture(scope="module")
def shows(tmp_path_factory):
    """Run a whole show, and beside it one in which something is missing."""
    options = {"whole": ["--keep"], "no_release": ["--backend", "broken_backends:no_release"]}
    folders = {name: tmp_path_factory.mktemp(name) for name in options}
    running = {name: start(folders[name], *given) for name, given in options.items()}
    return {name: outcome(running[name], folders[name]) for name in options}


def test_a_handover_and_a_takeover_are_shown(shows):
    show = shows["whole"]
    assert show.status == 0, show.text
    assert "Both a hand-over and a takeover were seen in time." in show.text
    handover = re.search(r"hand-over: .* was asked to stop; (\d+\.\d+) s later", joined(show.text))
    takeover = re.search(r"takeover: .* was killed; (\d+\.\d+) s later", joined(show.text))
    assert float(handover[1]) <= 2.0
    assert 3.0 <= float(takeover[1]) <= 8.0


def test_the_log_lines_of_three_instances_stand_side_by_side(shows):
    text = shows["whole"].text
    for name in ("one", "two", "three"):
        assert re.search(rf"^{name} *\| \[anarchon\] sync @ \S+Z: ", text, re.MULTILINE)
    assert re.search(r"report @ \S+Z: interrupted after \d+ ms, handed over to another", text)
    assert len(re.findall(r"report @ \S+Z: started on \S+ \(attempt 2, takeover\)", text)) == 2
    assert "(process ended with SIGKILL)" in text
    assert "(process ended with exit status 0)" in text


def test_no_colours_where_no_terminal_is(shows):
    assert "\x1b" not in shows["whole"].text


def test_every_slot_of_the_quick_job_ran_exactly_once(shows):
    slots, once = re.search(
        r"sync: (\d+) slots, (\d+) completed exactly once", shows["whole"].text
    ).groups()
    # The process that was stopped and the one that was killed may each have been in the middle
    # of one; until its lease ended, the slot after that was skipped.
    assert int(slots) - 3 <= int(once) <= int(slots)
    assert int(slots) >= 10


def test_the_kept_database_has_the_history(shows):
    show = shows["whole"]
    assert "demo.db" in show.left
    assert re.search(r"^The database is kept: /.*/demo\.db$", show.text, re.MULTILINE)


def test_without_a_handover_the_demo_fails_and_says_so(shows):
    show = shows["no_release"]
    assert show.status == 1, show.text
    assert "Not seen as promised: hand-over." in show.text


def test_nothing_is_left_in_the_temporary_folder(shows):
    assert shows["no_release"].left == []


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_it_at_once(tmp_path, signum):
    process = start(tmp_path / "tmp", "--report-work", "20s")
    read_until(process, r"report @ \S+Z: started on")
    assert len(processes(tmp_path / "tmp")) == 3
    began = time.monotonic()
    process.send_signal(signum)
    text, _ = process.communicate(timeout=20)
    assert time.monotonic() - began < 6  # far below what its run would take
    assert process.returncode == 128 + signum
    assert "Traceback" not in text
    wait_until_gone(tmp_path / "tmp", 2)


def test_killing_the_parent_ends_the_instances_and_removes_the_folder(tmp_path):
    process = start(tmp_path / "tmp")
    read_until(process, r"report @ \S+Z: started on")
    process.kill()
    process.communicate()
    wait_until_gone(tmp_path / "tmp", 5)


def test_a_reader_that_goes_away_ends_it_too(tmp_path):
    process = start(tmp_path / "tmp")
    read_until(process, r"report @ \S+Z: started on")
    process.stdout.close()
    assert process.wait(20) == 1
    wait_until_gone(tmp_path / "tmp", 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--database", "."], "it is a folder; name a file in it."),
        (["--database", "missing/demo.db"], "doesn't exist; create it."),
        (["--minutes", "0.1"], "--minutes 0.1 is too short to show a hand-over and a takeover; "),
    ],
)
def test_what_can_not_work_is_refused_in_one_sentence(tmp_path, options, says):
    process = start(tmp_path / "tmp", *options, cwd=tmp_path)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert says in text
    assert len(text.splitlines()) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


# Even the quickest show takes 7.5 s with these, and starting the processes comes on top.
SHORT = ["--report-every", "4s", "--report-work", "1s", "--minutes", "0.125"]


def test_when_the_minutes_are_over_it_says_what_was_not_shown_for_that_reason(tmp_path):
    """In a file of the user, which is kept, and has a run of an earlier show in it."""
    file = tmp_path / "mine.db"
    scheduler = Scheduler(SqliteBackend(file, namespace=NAMESPACE))
    scheduler.every("sync", "1h", lambda: None, catch_up=0)
    with scheduler:
        scheduler.run_now("sync")
    began = time.monotonic()
    process = start(tmp_path / "tmp", "--database", str(file), *SHORT)
    text, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 25
    assert process.returncode == 1
    assert "takeover: not shown: the time was over before " in joined(text)
    assert re.search(r"\nNot shown in that time: .*takeover. Give more --minutes.\n", text)
    assert text.endswith(f"The database is kept: {file}\n")
    slots = {run.slot for run in scheduler.history("sync", limit=1000)}
    assert int(re.search(r"sync: (\d+) slots?, ", text)[1]) == len(slots) - 1
    assert list((tmp_path / "tmp").iterdir()) == []
