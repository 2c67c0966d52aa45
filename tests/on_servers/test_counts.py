"""What a fleet asks of a server, counted by the server itself; nothing while nothing is due."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from anarchon import Scheduler
from anarchon.backends._redis_scripts import script_of
from tests.processes.places import backend_at
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer

# Late claims would be counted with the next slot.
pytestmark = pytest.mark.serial

SCRIPTS = ("claim", "skip", "finish", "release", "renew", "look", "prepare")
INSTANCES = 3
HEARTBEAT = 0.5


class CountedRedis:
    """What everybody but the one who counts asks of a Redis."""

    def __init__(self, own_server) -> None:
        self._server = own_server(RedisServer("redis-8.2"))
        self.url = self._server.url
        self._monitor = self._server.client(timeout=10.0)
        self._monitor("MONITOR")
        self._calls: Counter[str] = Counter()

    def calls(self):
        """Return how often each operation was asked for so far."""
        mark = f"mark-{time.monotonic()}"
        self._server.ask("ECHO", mark)
        while mark not in (line := self._monitor.receive().decode(errors="replace")):
            # Not what a script asks for, nor what this test does by the socket.
            if " lua]" not in line and " unix:" not in line:
                self._calls[operation_of(line)] += 1
        return self._calls.copy()

    def connections(self):
        """Return how many clients are connected by the network."""
        clients = self._server.ask("CLIENT", "LIST").decode().splitlines()
        return sum("unixsocket" not in client and "/socket" not in client for client in clients)

    def close(self):
        self._monitor.close()


def operation_of(line):
    """Return the operation that a line of MONITOR asks for; a command that is none as it is."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    if words[0].upper() in ("EVALSHA", "EVAL"):
        return next((name for name in SCRIPTS if script_of(name).digest == words[1]), words[0])
    return words[0]


class CountedPostgres:
    """Statements of everybody but the one who counts."""

    def __init__(self, own_server) -> None:
        self._server = own_server(Postgres("postgres-18"))
        self._database = self._server.create_database()
        self._server.ask("CREATE EXTENSION pg_stat_statements")
        self.url = self._server.url(self._database)

    def calls(self):
        """Return how often each operation was asked for so far, and every other statement."""
        found: Counter[str] = Counter()
        for query, calls in self._server.ask(
            "SELECT query, calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
            "WHERE datname = %s AND toplevel",
            (self._database,),
        ):
            # What is called with values, and not with the answer of another function.
            named = re.search(r"anarchon_(\w+)_v1\(\$", query)
            found[named[1] if named else query] += calls
        return found

    def connections(self):
        """Return how many sessions there are."""
        question = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        return self._server.ask(question, (self._database,))[0][0]

    def close(self):
        """Have nothing to close."""


@pytest.fixture(params=[CountedRedis, CountedPostgres], ids=["redis-8.2", "postgres-18"])
def server(request, own_server):
    with closing(request.param(own_server)) as server:
        yield server


class Service:
    """Instances on one server in this process."""

    def __init__(self, url) -> None:
        self.done = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.schedulers = [
            Scheduler(backend_at(url), lease=3, heartbeat=HEARTBEAT, catch_up=0)
            for _ in range(INSTANCES)
        ]

    def define(self, name, every, handler):
        for scheduler in self.schedulers:
            scheduler.every(name, every, handler)

    def work(self):
        self.begun.release()
        self.go.wait(30)

    def start(self):
        for scheduler in self.schedulers:
            scheduler.on("success", lambda run: self.done.release())
            scheduler.start()

    def stop(self):
        self.go.set()
        for scheduler in self.schedulers:
            scheduler.stop(5)


@pytest.fixture
def service(server):
    service = Service(server.url)
    yield service
    service.stop()


def after_slot(service):
    """Wait for a slot's success, and until its losers have claimed as well."""
    assert service.done.acquire(timeout=10)
    time.sleep(0.3)


def test_a_slot_costs_a_claim_of_each_instance_and_one_finish(service, server):
    """Who claims while the winner is at work looks once whether it still is."""
    service.define("tick", "1s", lambda: None)
    service.start()
    for _ in range(3):
        after_slot(service)  # till all are there
    before, slots = server.calls(), 3
    for _ in range(slots):
        after_slot(service)
    asked = server.calls() - before
    looks = asked.pop("look", 0)
    assert looks <= slots * (INSTANCES - 1)
    assert asked == {"claim": slots * INSTANCES, "finish": slots}


def test_a_live_run_costs_a_renewal_and_a_look_of_each_backup_a_heartbeat(service, server):
    """And never more than two connections of each instance."""
    service.define("long", "2s", service.work)
    service.start()
    assert service.begun.acquire(timeout=10)
    time.sleep(0.3)
    before, begun = server.calls(), time.monotonic()
    time.sleep(4.0)
    asked, beats = server.calls() - before, (time.monotonic() - begun) / HEARTBEAT
    # The slots that are due meanwhile overlap: one claim of each instance each.
    assert asked.pop("claim") in {INSTANCES, 2 * INSTANCES, 3 * INSTANCES}
    # A heartbeat is up to a tenth shorter or longer.
    assert beats / 1.1 - 1 <= asked.pop("renew") <= beats / 0.9 + 1
    backups = INSTANCES - 1
    assert backups * (beats / 1.1 - 1) <= asked.pop("look") <= backups * (beats / 0.9 + 1)
    assert asked.pop("EVAL", 0) <= 1  # a script that the server had to be given
    assert not asked
    assert server.connections() <= 2 * INSTANCES


def test_nothing_is_asked_while_nothing_is_due(service, server):
    service.define("rare", "1d", lambda: None)
    service.start()
    time.sleep(0.5)  # what a start asks for
    before = server.calls()
    time.sleep(3.0)
    assert server.calls() == before
    assert server.connections() <= 2 * INSTANCES
