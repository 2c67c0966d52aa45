"""What the quick start tells is done here: three processes on a file, a kill, a hand-over."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.docs.pages import blocks, environment, said_lines, shape
from tests.test_readme import PROGRAMS

PATIENCE = 60.0
LEASE, HEARTBEAT = 6.0, 1.0
FILES = {block.file: block.text for block in blocks("quick-start.md") if block.file}
RUNNER = re.compile(r"report @ (?P<slot>\S+): started on \S+:(?P<pid>\d+) \(attempt (?P<n>\d+),")


class Terminals:
    """Three processes of one program, and all that they say, in the order in which it comes."""

    def __init__(self, folder) -> None:
        self.lines: list[str] = []
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.processes = {}
        self._readers = []
        for _ in range(3):
            process = subprocess.Popen(
                [sys.executable, "app.py"],
                cwd=folder,
                env=environment(),
                stderr=subprocess.PIPE,
                text=True,
            )
            self.processes[process.pid] = process
            reader = threading.Thread(target=self._read, args=(process,), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, process) -> None:
        for line in process.stderr:
            self._said.put(line.rstrip("\n"))

    def until(self, pattern: str) -> re.Match[str]:
        """Wait for a line, in what was said before or comes now."""
        for line in self.lines:
            if found := re.search(pattern, line):
                return found
        deadline = time.monotonic() + PATIENCE
        while True:
            self.lines.append(self._said.get(timeout=max(deadline - time.monotonic(), 0.001)))
            if found := re.search(pattern, self.lines[-1]):
                return found

    def runner(self, attempt: int) -> re.Match[str]:
        """Wait until `report` is started for this attempt."""
        return self.until(RUNNER.pattern.replace(r"(?P<n>\d+)", str(attempt)))

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self.processes.values():
            process.stderr.close()


@pytest.fixture
def terminals(tmp_path):
    (tmp_path / "app.py").write_text(FILES["app.py"])
    running = Terminals(tmp_path)
    yield running
    running.close()


def test_the_program_is_that_of_the_readme_and_has_twelve_lines():
    assert FILES["app.py"] == PROGRAMS[0]
    assert len(FILES["app.py"].splitlines()) == 12


@pytest.mark.serial  # three processes, and times are measured
def test_three_terminals_a_kill_and_a_stop(terminals):
    """Go through the page. In the end each line that it shows has been seen, times apart."""
    for _ in terminals.processes:
        terminals.until(r"scheduler started on")
    first = terminals.runner(attempt=1)
    # Wait for a slot that all three have seen, as the page does.
    slot = terminals.until(r"sync @ (\S+): started on \S+ \(attempt 1, scheduled\)")[1]
    terminals.until(rf"sync @ {slot}: finished in \d+ ms")
    terminals.until(rf"sync @ {slot}: skipped \(taken\)")

    killed_at = time.monotonic()
    os.kill(int(first["pid"]), signal.SIGKILL)
    second = terminals.runner(attempt=2)
    waited = time.monotonic() - killed_at
    assert second["slot"] == first["slot"]
    assert LEASE - HEARTBEAT - 1 <= waited <= LEASE + 2 * HEARTBEAT + 2  # a busy machine
    terminals.until(r"report @ \S+: skipped \(overlap\)")

    attempt = max(int(RUNNER.search(line)["n"]) for line in terminals.lines if RUNNER.search(line))
    current = terminals.runner(attempt)
    stopped_at = time.monotonic()
    terminals.processes[int(current["pid"])].send_signal(signal.SIGINT)
    third = terminals.runner(attempt + 1)
    assert time.monotonic() - stopped_at <= 2 * HEARTBEAT + 2
    assert third["slot"] == second["slot"]
    terminals.until(r"scheduler stopped on")
    assert terminals.processes[int(current["pid"])].wait(PATIENCE) == 0

    seen = {shape(line) for line in terminals.lines}
    unseen = [line for line in said_lines("quick-start.md") if shape(line) not in seen]
    assert unseen == [], "\n".join(terminals.lines)


def test_the_lines_of_the_page_tell_one_story():
    """The run that is started is the one that is killed, taken over, and handed over."""
    text = "\n".join(said_lines("quick-start.md"))
    slots = {match["slot"] for match in RUNNER.finditer(text)}
    attempts = [match["n"] for match in RUNNER.finditer(text)]
    assert (len(slots), attempts) == (1, ["2", "3"])


def test_the_hooks_start_and_stop(tmp_path):
    """Call the hooks as gunicorn does, on the program without its last line."""
    program, last = FILES["app.py"].rstrip().rsplit("\n", 1)
    assert last.startswith("scheduler.run()")
    (tmp_path / "app.py").write_text(program)
    (tmp_path / "conf.py").write_text(FILES["gunicorn.conf.py"])
    (tmp_path / "main.py").write_text(
        "import conf, app\n"
        "conf.post_worker_init(None)\n"
        "while app.scheduler.state == 'starting': app.scheduler.wait(0.05)\n"
        "assert app.scheduler.state == 'running', app.scheduler.state\n"
        "conf.worker_exit(None, None)\n"
        "assert app.scheduler.state == 'idle', app.scheduler.state\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
