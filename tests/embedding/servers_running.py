"""Real servers for tests: started on a free port, heard with deadlines, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from anarchon import Scheduler, SqliteBackend
from tests.servers.processes import free_port

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
# A deadline of a wait for something that has no bound of its own: long, because the machine
# may be busy, and never waited for in a test that passes.
LONG = 30.0
LEASE, HEARTBEAT = 3.0, 0.5  # as tests/embedding/servers_app.py has them
# What a busy machine may take on top. Even so a hand-over, within two heartbeats, is told from
# a lease that ran out, 2.5 seconds after the last heartbeat or later.
SLACK = 1.4
EARLY = 0.7  # as late a last heartbeat may have been


def soon(seconds: float = 0.0) -> str:
    """Return an instant, as text, so many seconds ahead."""
    at = time.time() + seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"


def long_job(name: str = "work", *, seconds: float = 60, **more) -> dict:
    """Return a job due now, so that the first scheduler that runs begins it at once."""
    return {"name": name, "once": soon(), "seconds": seconds, **more}


def environment(folder: Path, options: dict) -> dict[str, str]:
    """Return the environment of a process that loads the application of these tests."""
    # What is installed comes before the checkout, also in a uWSGI that runs itself anew.
    installed = sysconfig.get_path("purelib")
    path = os.pathsep.join([str(folder), str(HERE), installed, str(CHECKOUT)])
    more = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "EMBEDDED": json.dumps(options)}
    return {**os.environ, **more}


class Server:
    """One server, with its master and its workers, and what happened in them."""

    def __init__(self, folder: Path, command: list[str], options: dict) -> None:
        self.folder = folder
        self.port = free_port()
        for name in options.get("with_port", []):
            file = folder / name
            file.write_text(file.read_text().replace("{port}", str(self.port)))
        self.events_file = Path(options["events"])
        self._stderr = folder / f"stderr-{self.port}"
        words = [word.replace("{port}", str(self.port)) for word in command]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd=folder,
                env=environment(folder, options),
                start_new_session=True,
            )
        self.pid = self.process.pid

    # --- hearing ---

    def log(self) -> str:
        return self._stderr.read_text(errors="replace")

    def events(self, kind: str, **facts) -> list[dict]:
        """Return what happened so far, of a kind and with these facts."""
        if not self.events_file.exists():
            return []
        lines = [json.loads(line) for line in self.events_file.read_text().splitlines()]
        return [
            line
            for line in lines
            if line["kind"] == kind and all(line.get(key) == facts[key] for key in facts)
        ]

    def count(self, kind: str) -> int:
        return len(self.events(kind))

    def expect(self, kind: str, *, count: int = 1, within: float = LONG, **facts) -> dict:
        """Wait for an event, the `count`-th of its kind with these facts, and return it."""
        what = f"{count} x {kind} {facts}"
        self.wait_for(lambda: len(self.events(kind, **facts)) >= count, what, within)
        return self.events(kind, **facts)[count - 1]

    def wait_for(self, condition, what: str, within: float = LONG):
        """Wait until something is so; return what was found to be so."""
        until = time.monotonic() + within
        while not (found := condition()):
            assert time.monotonic() < until, f"not within {within} s: {what}\n{self.report()}"
            time.sleep(0.02)
        return found

    def report(self) -> str:
        events = self.events_file.read_text() if self.events_file.exists() else ""
        return f"--- server {self.pid} says:\n{self.log()}\n--- events:\n{events}"

    def expect_log(self, text: str, *, count: int = 1, within: float = LONG) -> None:
        self.wait_for(lambda: self.log().count(text) >= count, f"{count} x {text!r}", within)

    # --- asking ---

    def ask(self, path: str, timeout: float = LONG) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as answer:
            return answer.read().decode()

    def answers(self, path: str) -> str | None:
        """Return what is answered, or None."""
        try:
            return self.ask(path, timeout=5)
        except OSError:
            return None

    def serves(self) -> bool:
        return self.answers("/state") is not None

    def states(self, workers: int, state: str = "running") -> dict[int, dict]:
        """Ask until so many workers have answered with a state; return their answers by pid."""
        heard: dict[int, dict] = {}

        def all_there() -> bool:
            with suppress(OSError):
                answer = json.loads(self.ask("/state", timeout=5))
                heard[answer["pid"]] = answer
            return [one["state"] for one in heard.values()].count(state) == workers

        self.wait_for(all_there, f"{workers} workers that say {state}; these did: {heard}")
        return heard

    def started(self, count: int = 0) -> list[int]:
        """Return the processes whose schedulers said that they have started.

        Wait for so many: a line is written by a thread of its own, so a run may begin before it.
        """
        if count:
            self.expect_log("scheduler started on ", count=count)
        marked = [line for line in self.log().splitlines() if "scheduler started on " in line]
        return [int(line.split(" on ")[1].split(" ")[0].rpartition(":")[2]) for line in marked]

    # --- ending ---

    def send(self, signum: int, pid: int | None = None) -> float:
        """Send a signal, to the master if nobody is named; return when."""
        sent = time.monotonic()
        os.kill(self.pid if pid is None else pid, signum)
        return sent

    def end(self, *codes: int, within: float = LONG) -> float:
        """Wait for the end of the server's first process; return when it had ended."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on\n{self.report()}") from None
        assert code in (codes or (0,)), f"exit status {code}\n{self.report()}"
        return time.monotonic()

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def clean_up(self) -> None:
        """Kill what is left of the group of processes that this server was started as."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(LONG)


@contextmanager
def asking_slowly(server: Server, seconds: float):
    """Have a request in flight that takes so long, and its answer in a list afterwards."""
    answers: list[str] = []

    def ask():
        with suppress(OSError, HTTPException):
            answers.append(server.ask(f"/slow?seconds={seconds}"))

    asking = threading.Thread(target=ask)
    asking.start()
    server.expect("slow")
    yield answers
    asking.join()


class Site:
    """The servers of one test on one store, and a backup in the test's own process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "jobs.db"
        self._servers: list[Server] = []
        self._schedulers: list[Scheduler] = []

    def options(self, *jobs: dict, **more) -> dict:
        return {
            "store": str(self.store),
            "events": str(self.folder / "events"),
            "ready": str(self.folder / "ready"),
            "jobs": jobs,
            **more,
        }

    def serve(self, command: list[str], options: dict) -> Server:
        """Start a server and wait until it answers."""
        server = self.start(command, options)
        server.wait_for(lambda: server.serves() or server.has_ended(), "an answer")
        assert not server.has_ended(), server.report()
        return server

    def start(self, command: list[str], options: dict) -> Server:
        server = Server(self.folder, command, options)
        self._servers.append(server)
        return server

    def gunicorn(
        self,
        *words: str,
        options: dict,
        conf: str = "",
        serves: bool = True,
        scheduler: str = "",
        module: str = "servers_app",
    ) -> Server:
        """Start gunicorn with our hooks, or with the configuration given."""
        named = scheduler or f'"{module}:scheduler"'
        text = f"from anarchon.contrib.gunicorn import hooks\nglobals().update(hooks({named}))\n"
        (self.folder / "gunicorn.conf.py").write_text(conf or text)
        command = [
            *(sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:{port}"),
            *("--worker-tmp-dir", str(self.folder), "--no-control-socket", *words),
            f"{module}:app",
        ]
        return (self.serve if serves else self.start)(command, options)

    def uwsgi(self, *words: str, options: dict, serves: bool = True) -> Server:
        command = [
            *(str(Path(sys.executable).with_name("uwsgi")), "--need-app"),
            *("--http-socket", "127.0.0.1:{port}", "--module", "servers_app:app", *words),
        ]
        return (self.serve if serves else self.start)(command, options)

    def granian(self, *words: str, options: dict) -> Server:
        command = [
            *(str(Path(sys.executable).with_name("granian")), "--interface", "wsgi"),
            *("--host", "127.0.0.1", "--port", "{port}", *words, "servers_app:app"),
        ]
        return self.serve(command, options)

    def waitress(self, *, options: dict) -> Server:
        return self.serve([sys.executable, str(HERE / "servers_app.py"), "{port}"], options)

    def backup(self, options: dict) -> list[tuple[float, str, int, str, int]]:
        """Start a scheduler here with the same jobs; return what it begins, as it does."""
        begun: list[tuple[float, str, int, str, int]] = []

        def work(ctx):
            begun.append((time.monotonic(), ctx.name, ctx.attempt, ctx.reason, ctx.slot))

        backup = Scheduler(SqliteBackend(self.store), lease="3s", heartbeat="500ms")
        self._schedulers.append(backup)
        for job in options["jobs"]:
            backup.once(job["name"], job["once"], work, **job.get("options", {}))
        backup.start()
        return begun

    def attempts(self, name: str) -> list[tuple[int, str]]:
        """Return the attempts of a job's runs and how each has ended, oldest first."""
        reader = Scheduler(SqliteBackend(self.store))
        found = reader.history(name, limit=1000)
        return [(run.attempt, run.status) for run in reversed(found)]

    def wait_for_attempts(self, name: str, wanted: list[tuple[int, str]]) -> None:
        """Wait until a job's attempts are these."""
        until = time.monotonic() + LONG
        while (found := self.attempts(name)) != wanted:
            assert time.monotonic() < until, f"{name}: {found}, not {wanted}"
            time.sleep(0.05)

    def slots(self, name: str) -> list[int]:
        """Return the slots that were begun to be run, as often as they were."""
        reader = Scheduler(SqliteBackend(self.store))
        return [run.slot for run in reader.history(name, limit=1000) if run.status == "success"]

    def clean_up(self) -> None:
        for scheduler in self._schedulers:
            scheduler.stop(2)
        for server in self._servers:
            server.clean_up()
