"""Real processes for tests: started, heard with deadlines, and never left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from anarchon import Scheduler
from tests.processes.places import backend_at

CHILD = str(Path(__file__).with_name("child.py"))
# A deadline of a wait for something that has no bound of its own: long, because the machine
# may be busy, and never waited for in a test that passes.
LONG = 30.0
REPORTED = 60  # lines of a process, in the message of a failing test


class Process:
    """One Python process, and what it has said so far.

    Warnings are errors in it, and what it writes to stderr fails the test unless the test
    says what it may be.
    """

    def __init__(self, news, program: str, options: dict, folder: Path, name: str, **how) -> None:
        self.name = name
        self.lines: list[dict] = []
        self.sent: set[int] = set()
        self.code: int | None = None
        self._silent = False
        self._news = news
        self._stderr = folder / f"{name}.stderr"
        warnings = how.pop("warnings", ["error"])
        with self._stderr.open("wb") as stderr:
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-P", *(f"-W{one}" for one in warnings)),
                    *(CHILD, program, json.dumps(options)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                env={**os.environ, **how.pop("env", {})},
                start_new_session=True,
                **how,
            )
        self.pid = self._popen.pid
        self._reader = threading.Thread(target=self._read, name=f"reads-{name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            with self._news:
                self.lines.append(json.loads(line))
                self._news.notify_all()
        self._silent = True
        with self._news:
            self._news.notify_all()

    # --- listening ---

    def said(self, kind: str, **facts) -> list[dict]:
        """Return the lines of a kind, with these facts, so far."""
        with self._news:
            return [line for line in self.lines if _matches(line, kind, facts)]

    def expect(self, kind: str, *, within: float = LONG, count: int = 1, **facts) -> dict:
        """Wait for a line of a kind, with these facts (the `count`-th), and return it."""
        return self.expect_all(kind, within=within, count=count, **facts)[count - 1]

    def expect_all(self, kind: str, *, within: float = LONG, count: int, **facts) -> list[dict]:
        """Wait until there are `count` lines of a kind, with these facts."""
        return _wait_for_lines(self, self._news, kind, within, count, facts)

    def is_silent(self) -> bool:
        """Say whether nothing more can come."""
        return self._silent

    def log(self, *levels: str) -> list[str]:
        """Return the log lines of these levels; of all without any."""
        return [line["text"] for line in self.said("log") if not levels or line["level"] in levels]

    def report(self) -> str:
        """Return everything it said, for the message of a failing test."""
        said = "\n".join(_shown(line) for line in self.lines[-REPORTED:])
        return f"--- {self.name} ({self.pid}) said\n{said}\n--- its stderr\n{self.errors()}"

    def errors(self) -> str:
        """Return what it wrote to stderr."""
        return self._stderr.read_text(encoding="utf-8", errors="replace")

    # --- telling ---

    def send(self, signum: int) -> float:
        """Send a signal; return the moment."""
        self.sent.add(signum)
        at = time.monotonic()
        self._popen.send_signal(signum)
        return at

    def tell(self, text: str = "go") -> None:
        """Send a line to its stdin."""
        self._popen.stdin.write(f"{text}\n".encode())
        self._popen.stdin.flush()

    def go(self) -> None:
        """Let a service that was held start, and wait until it runs."""
        self.tell()
        self.expect("running")

    # --- the end ---

    def end(self, *codes: int, within: float = LONG, stderr: str = "") -> float:
        """Wait until it ends by itself; check its exit status and stderr; return the moment.

        `stderr` is a regular expression for all of it, apart from log lines. The pipe of
        a process closes only when no child of its own is left: so that is checked as well.
        """
        try:
            self.code = self._popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {within} s\n{self.report()}") from None
        at = time.monotonic()
        self._reader.join(LONG)
        assert not self._reader.is_alive(), f"left children behind\n{self.report()}"
        expected = codes or (0,)
        assert self.code in expected, f"status {self.code}, not {expected}\n{self.report()}"
        assert re.fullmatch(stderr, _without_log_lines(self.errors())), self.report()
        return at

    def stop(self) -> None:
        """Send SIGTERM to a service, and see it end well."""
        self.send(signal.SIGTERM)
        self.end()

    def kill(self) -> float:
        """Kill it, and return the moment at which it is gone."""
        self.send(signal.SIGKILL)
        return self.end(-signal.SIGKILL)

    def clean_up(self) -> str | None:
        """Kill what is left of it; return what was wrong, if anything was."""
        left = self._popen.poll() is None
        with suppress(ProcessLookupError):
            # All of its children too: it has a process group of its own.
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self._popen.stdin.close()
        self._reader.join(LONG)
        self._popen.stdout.close()
        if left:
            return f"was not ended by its test\n{self.report()}"
        if self.code is None and self._popen.returncode not in {0, *(-sent for sent in self.sent)}:
            return f"ended with {self._popen.returncode}\n{self.report()}"
        return None


class Fleet:
    """The processes of one test, in a folder; on a SQLite file in it, or on another store."""

    def __init__(self, folder: Path, url: str | None = None, namespace: str = "test") -> None:
        self.folder = folder
        self.database = url or folder / "jobs.db"
        self.namespace = namespace
        self.processes: list[Process] = []
        self._news = threading.Condition()  # one for all, so that a test can wait for any of them
        # Never started: it reads the history, as any program beside the service may.
        self.scheduler = Scheduler(backend_at(str(self.database), namespace=namespace))

    def start(self, *jobs: dict, program: str = "instance:serve", **options) -> Process:
        """Start a process without waiting for it; `how` goes to `Process`."""
        how = options.pop("how", {})
        name = options.pop("name", f"p{len(self.processes) + 1}")
        store = {"database": str(self.database), "namespace": self.namespace}
        given = {**store, "jobs": jobs, **options}
        process = Process(self._news, program, given, self.folder, name, **how)
        self.processes.append(process)
        return process

    def serve(self, *jobs: dict, **options) -> Process:
        """Start a service, and wait until it runs."""
        process = self.start(*jobs, **options)
        process.expect("running")
        return process

    def hold(self, *jobs: dict, **options) -> Process:
        """Start a service that waits for `go` right before its scheduler starts."""
        process = self.start(*jobs, hold=True, **options)
        process.expect("ready")
        return process

    def expect(self, kind: str, *, within: float = LONG, count: int = 1, **facts) -> dict:
        """Wait for a line (the `count`-th) that any of the processes says, and return it."""
        return _wait_for_lines(self, self._news, kind, within, count, facts)[count - 1]

    def is_silent(self) -> bool:
        """Say whether nothing more can come."""
        return all(process.is_silent() for process in self.processes)

    def said(self, kind: str, **facts) -> list[dict]:
        """Return what all processes have said of a kind, in the order of the moments."""
        lines = [line for process in self.processes for line in process.said(kind, **facts)]
        return sorted(lines, key=lambda line: line["at"])

    def history(self, job: str, **options) -> list:
        """Return the records of a job, oldest first."""
        return self.scheduler.history(job, **{"limit": 1000, **options})[::-1]

    def attempts(self, job: str) -> list[tuple[int, str]]:
        """Return attempt and status of each record of a job, oldest first."""
        return [(run.attempt, run.status) for run in self.history(job)]

    def expect_history(self, job: str, done, *, within: float = LONG) -> list:
        """Read a job's records until `done(records)`; return them, oldest first."""
        deadline = time.monotonic() + within
        while not done(runs := self.history(job)):
            assert time.monotonic() < deadline, "\n".join([*map(str, runs), self.report()])
            time.sleep(0.05)
        return runs

    def stop(self) -> None:
        """Stop every service that is left, one after the other."""
        for process in self.processes:
            if process.code is None:
                process.stop()

    def report(self) -> str:
        return "\n".join(process.report() for process in self.processes)

    def clean_up(self) -> list[str]:
        wrong = [process.clean_up() for process in self.processes]
        return [text for text in wrong if text]


def since(slot: int):
    """Return a fact for lines: their slot is this one or a later one."""
    return lambda found: found is not None and found >= slot


def soon(seconds: float = 0.0) -> int:
    """Return an instant in milliseconds since 1970, so many seconds ahead."""
    return time.time_ns() // 1_000_000 + round(seconds * 1000)


def _wait_for_lines(of, news, kind: str, within: float, count: int, facts: dict) -> list[dict]:
    """Wait until a process, or any of a fleet, has said `count` such lines; return them."""
    with news:
        news.wait_for(lambda: len(of.said(kind, **facts)) >= count or of.is_silent(), within)
        found = of.said(kind, **facts)
    assert len(found) >= count, f"not {count} times in {within} s: {kind} {facts}\n{of.report()}"
    return found


def _without_log_lines(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith("[anarchon] "))


def _shown(line: dict) -> str:
    """Return a line without what only repeats other parts of it."""
    dull = {"at", "kind", "pid", "run_id", "scheduled_at", "instance_id", "started_at", "manual"}
    facts = (f"{k}={v}" for k, v in line.items() if k not in dull and v is not None)
    return f"{line['at']:.3f} {line['kind']} {' '.join(facts)}"


def _matches(line: dict, kind: str, facts: dict) -> bool:
    return line["kind"] == kind and all(_is(line.get(name), fact) for name, fact in facts.items())


def _is(found, fact) -> bool:
    """Say whether what a line has is what was asked for: a value, or a question about one."""
    return fact(found) if callable(fact) else found == fact
