"""The workers of the examples are replaced or ended: what runs in them is handed over at once."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from urllib.request import urlopen

import pytest

from anarchon import Scheduler, SqliteBackend
from tests.embedding.django_project import Project
from tests.embedding.flask_apps import CHECKOUT, Process
from tests.embedding.servers_running import SLACK
from tests.servers.processes import free_port

pytestmark = pytest.mark.serial

HEARTBEAT = 1.0  # as both examples have it; their lease is six
WORKERS = 4

# More than a run of `ship` sends, so that it takes its five seconds.
ORDERS = "from shop.models import Order; [Order.objects.create(slot=n) for n in range(60)]"


class Example(NamedTuple):
    """An example, what gunicorn is to serve of it, where its runs are, and its longest job.

    One that has run for less than `young` seconds has seconds before it.
    """

    name: str
    target: str
    database: str
    job: str
    young: float


FLASK = Example("flask_gunicorn", "app:app", "jobs.db", "report", 12)
DJANGO = Example("django_site", "config.wsgi:application", "db.sqlite3", "ship", 2)


class Server(NamedTuple):
    """A gunicorn, its port, and the processes whose schedulers run at first."""

    process: Process
    port: int
    workers: frozenset[int]


class Fleet:
    """The gunicorns of one example, in a folder of their own."""

    def __init__(self, example: Example, folder, stack: ExitStack) -> None:
        self.example, self.folder, self._stack = example, folder, stack
        self._known: frozenset[int] = frozenset()
        ignored = shutil.ignore_patterns("*.db*", "*.sqlite3*", "__pycache__")
        shutil.copytree(CHECKOUT / "examples" / example.name, folder, ignore=ignored)
        if example is DJANGO:
            project = Project(folder, bare=True)
            project.manage("migrate", "-v", "0")
            project.manage("shell", "-v", "0", "-c", ORDERS)

    def serve(self, *words: str) -> Server:
        """Start a gunicorn with four workers; return when all their schedulers run."""
        port = free_port()
        more = ("--bind", f"127.0.0.1:{port}", "--worker-tmp-dir", ".", "--no-control-socket")
        more = (*more, "-w", str(WORKERS))
        process = Process(self.folder, "-m", "gunicorn", *words, *more, self.example.target)
        self._stack.callback(process.clean_up)

        def all_there():
            fresh = frozenset(process.started()) - self._known  # the gunicorns share their log
            return len(fresh) == WORKERS and fresh

        workers = process.wait_for(all_there, "four schedulers")
        self._known |= workers
        return Server(process, port, workers)

    def attempts(self) -> list:
        """Return the attempts of the longest job, oldest first."""
        reader = Scheduler(SqliteBackend(self.folder / self.example.database))
        runs = reader.history(self.example.job, limit=100)
        return [run for run in reversed(runs) if run.status != "skipped"]

    def young_run(self):
        """Return a run that goes on, and has most of its time before it."""
        going = [run for run in self.attempts() if run.status == "running"]
        limit = time.time() - self.example.young
        return next((run for run in going if run.started_at.timestamp() > limit), None)

    def follows(self, run):
        """Return this attempt as it ended, and the next one, as soon as there is one."""
        found = [one for one in self.attempts() if one.slot == run.slot]
        after = [one for one in found if one.attempt == run.attempt + 1]
        return after and (found[found.index(after[0]) - 1], after[0])


@contextmanager
def stuck_requests(port: int, count: int):
    """Have connections on each of which half a request has come."""
    with ExitStack() as stack:
        for _ in range(count):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            half.sendall(b"GET / HTTP/1.1\r\nHost: ")
        yield


def hang_up(server: Server, worker: int) -> None:
    os.kill(server.process.pid, signal.SIGHUP)


def ask_enough(server: Server, worker: int) -> None:
    """Ask until a worker has had as many requests as it may."""
    until = time.monotonic() + 20
    while worker not in server.process.stopped():
        assert time.monotonic() < until
        with urlopen(f"http://127.0.0.1:{server.port}/", timeout=10) as answer:
            answer.read()


def end(server: Server, worker: int) -> None:
    os.kill(server.process.pid, signal.SIGTERM)


WAYS = {"hup": hang_up, "max-requests": ask_enough, "stuck": end}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
@pytest.mark.parametrize("example", [FLASK, DJANGO], ids=lambda example: example.name)
def test_a_run_is_handed_over_within_a_second(tmp_path, example, preload, way):
    words = (*preload, *(("--max-requests", "3") if way == "max-requests" else ()))
    with ExitStack() as stack:
        fleet = Fleet(example, tmp_path / "site", stack)
        servers = [fleet.serve(*words)]
        if way == "stuck":
            servers.append(fleet.serve(*words))  # one of the two goes on
        run = servers[0].process.wait_for(fleet.young_run, "a run")
        worker = int(run.instance_id.rpartition(":")[2])
        [server] = [server for server in servers if worker in server.workers]
        if way == "stuck":
            stack.enter_context(stuck_requests(server.port, WORKERS + 1))
        told = time.time()
        WAYS[way](server, worker)
        ended, after = server.process.wait_for(lambda: fleet.follows(run), "another attempt")
    assert (ended.status, ended.detail) == ("interrupted", "handed over")
    assert (after.attempt, after.reason) == (run.attempt + 1, "takeover")
    assert after.instance_id != ended.instance_id
    released = ended.finished_at.timestamp()
    if way != "max-requests":  # how often each worker was asked is not known outside
        assert released - told < 1
    assert after.started_at.timestamp() - released < 2 * HEARTBEAT + SLACK
