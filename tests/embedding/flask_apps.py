"""Flask apps for tests: made here, or served by processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from wsgiref.util import setup_testing_defaults

from flask import Flask

from anarchon import Scheduler, SqliteBackend

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OPTIONS = {"lease": "3s", "heartbeat": "500ms"}
PATIENCE = 30.0  # seconds until a test gives up


def make_app(name: str = "app", **config) -> Flask:
    """Return an app with a store in memory, unless the config says otherwise."""
    app = Flask(name)
    app.config.update(ANARCHON_BACKEND="memory://", ANARCHON_OPTIONS=OPTIONS)
    app.config.update(config)
    return app


def serve_one(app, path: str = "/") -> tuple[str, str]:
    """Ask an app once, as a server does; return the status and the answer."""
    environ = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    statuses = []
    answer = app(environ, lambda status, _headers, _error=None: statuses.append(status))
    with closing(answer) if hasattr(answer, "close") else nullcontext():
        return statuses[0], b"".join(answer).decode()


# --- in processes -----------------------------------------------------------------

PROGRAM = """
import json, os, sys
from flask import Flask, current_app
from anarchon.contrib.flask import Anarchon

def tell(what, **more):
    with open("events", "a") as events:
        events.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\\n")

app = Flask(__name__)
app.config.update(
    ANARCHON_BACKEND="sqlite:///jobs.db",
    ANARCHON_AUTOSTART=True,
    ANARCHON_OPTIONS={"lease": "3s", "heartbeat": "500ms", "log": True},
)
app.config.from_prefixed_env()
jobs = Anarchon(app)

@jobs.every("sync", "500ms")
def sync():
    tell("sync", app=current_app.name, late=late())

@app.get("/")
def index():
    return jobs.scheduler.state

import time
time.sleep(0.3)  # a job that began while this is imported would not find what comes now

def late():
    return "found"

tell("imported")
if __name__ == "__main__":
    app.run(port=int(sys.argv[1]), debug=sys.argv[2] == "debug")
"""


class Process:
    """A process in a folder with the program as ``app.py``, and what it has told and logged."""

    def __init__(self, folder: Path, *command: str, **variables: str) -> None:
        self.folder = folder
        self._log = folder / "log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLASK_", "WERKZEUG_"))}
        # In front of it, so that a script finds what this process imports.
        more = {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", **variables}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**kept, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def told(self, what: str) -> list[dict]:
        file = self.folder / "events"
        lines = file.read_text().splitlines() if file.exists() else []
        return [told for told in map(json.loads, lines) if told["what"] == what]

    def pids(self, what: str) -> list[int]:
        """Return the processes that told it, in the order in which they first did."""
        return list(dict.fromkeys(told["pid"] for told in self.told(what)))

    def started(self, count: int = 0) -> list[int]:
        """Return the processes in which a scheduler has started.

        Wait for so many: a line is written by a thread of its own, so a run may begin before it.
        """
        return self._from_log("scheduler started on ", count)

    def stopped(self, count: int = 0) -> list[int]:
        """Return the processes in which a scheduler has stopped; wait for so many."""
        return self._from_log("scheduler stopped on ", count)

    def _from_log(self, words: str, count: int) -> list[int]:
        self.wait_for(lambda: self.log().count(words) >= count, f"{count} x {words!r}")
        names = [line.partition(words)[2] for line in self.log().splitlines() if words in line]
        return [int(name.split(":", 1)[1].split()[0].rstrip(",")) for name in names]

    def wait_for(self, condition, what: str):
        until = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < until, f"not in time: {what}\n{self.log()}"
            time.sleep(0.02)
        return found

    def port(self) -> int:
        """Return the port that a development server says it listens on."""
        marked = "Running on http://127.0.0.1:"
        self.wait_for(lambda: marked in self.log(), "the address")
        return int(self.log().partition(marked)[2].split()[0])

    def press(self, number: int = signal.SIGINT) -> None:
        """Send a signal to all of the group, as a terminal does, and wait for the end."""
        os.killpg(self.pid, number)
        self.process.wait(PATIENCE)

    def press_with_room(self) -> None:
        """Press Ctrl-C; the parent that reloads stands still until its child has stopped.

        Else it would kill the child a quarter of a second later, however busy the machine is.
        """
        count = len(self.stopped())
        os.kill(self.pid, signal.SIGSTOP)
        os.killpg(self.pid, signal.SIGINT)
        self.stopped(count + 1)
        os.kill(self.pid, signal.SIGCONT)
        self.process.wait(PATIENCE)

    def clean_up(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def running(folder: Path, *command: str, program: str = PROGRAM, **variables: str):
    """Run Python in a folder that has the program; whatever is left of it is killed."""
    (folder / "app.py").write_text(program)
    process = Process(folder, *command, **variables)
    try:
        yield process
    finally:
        process.clean_up()


def history(folder: Path) -> list:
    """Return the runs in the store of the program."""
    return Scheduler(SqliteBackend(folder / "jobs.db")).history(limit=1000)
