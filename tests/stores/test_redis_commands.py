"""What is sent to a Redis: one command for an operation, nothing while idle, few connections."""

from __future__ import annotations

import re
import threading
import time
from importlib.resources import files

import pytest

from anarchon._values import Lease, Limits, Owner, Pace, Presence, Result, RunKey, SkipWish
from anarchon.backends import _redis_scripts as scripts
from anarchon.backends.redis import RedisBackend
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, finish, now_ms, wish

A, B = Owner("a", "a"), Owner("b", "b")
SPEAKER = Owner("a", "a", Presence(now_ms(), "{}", "{}"))
RIGHTS = {
    *("time", "hget", "hset", "hdel", "hexists", "hrandfield"),
    *("zadd", "zrem", "zrangebylex", "zrevrangebylex"),
}
LUA = {path.name: path.read_text() for path in (files("anarchon.backends") / "lua").iterdir()}


class Monitor:
    """Everything that clients say to a server, scripts' own commands left out."""

    def __init__(self, server):
        self._client = server.client(timeout=10.0)
        self._client("MONITOR")
        self._server = server

    def said(self):
        """Return the commands since the last time."""
        mark = f"mark-{time.monotonic()}"
        self._server.ask("ECHO", mark)
        found = []
        while mark not in (line := self._client.receive().decode(errors="replace")):
            found.append(line)
        ours = [line for line in found if " lua]" not in line]
        return [re.search(r'\] "([^"]*)"', line)[1].upper() for line in ours]

    def close(self):
        self._client.close()


@pytest.fixture
def server(own_server):
    return own_server(RedisServer("redis-8.2"))


@pytest.fixture
def backend(server):
    backend = RedisBackend(server.url)
    backend.open(Limits())
    backend.prepare(["job"])
    yield backend
    backend.close()


@pytest.fixture
def monitor(server, backend):
    monitor = Monitor(server)
    yield monitor
    monitor.close()


SLOT = RunKey("job", now_ms())
TOKEN = SLOT._replace(manual="token")
RESULT = Result(SLOT, 1, "success", "scheduled", 0, 0)
OPERATIONS = {
    "claim": lambda it: it.claim([wish("job", SLOT.slot_ms)], owner=A, wins=1, pace=Pace(0.0)),
    "lost": lambda it: it.claim([wish("job", SLOT.slot_ms)], owner=B, wins=1, pace=Pace(0.0)),
    "renew": lambda it: it.renew([Lease(SLOT, 1)], owner=A, lease_ms=30_000),
    "look": lambda it: it.look(["job"], owner=B),
    "unfinished": lambda it: it.unfinished(["job"], owner=B),
    "save": lambda it: it.save(Lease(SLOT, 1), owner=A, value="{}"),
    "release": lambda it: it.release([RESULT], owner=A),
    "cancel": lambda it: it.cancel(SLOT),
    "finish": lambda it: it.finish([RESULT], owner=A),
    "manual": lambda it: it.record_manual([RESULT._replace(key=TOKEN)], owner=A, lease_ms=9000),
    "skip": lambda it: it.skip([SkipWish(SLOT, 0, "late")], owner=A, pace=Pace(0.0)),
    "history": lambda it: it.history("job", limit=10),
    "trigger": lambda it: it.trigger([TOKEN._replace(manual="trigger-1")], data="1"),
    "pause": lambda it: it.pause("job", duration_ms=None),
    "resume": lambda it: it.resume("job"),
    "alert": lambda it: it.alert([SLOT], owner=A),
    "present": lambda it: it.present(SPEAKER),
    "instances": lambda it: it.instances(),
    "claim and present": lambda it: it.claim(
        [wish("job", SLOT.slot_ms)], owner=SPEAKER, wins=1, pace=Pace(0.0)
    ),
    "renew and present": lambda it: it.renew([Lease(SLOT, 1)], owner=SPEAKER, lease_ms=30_000),
    "unfinished and present": lambda it: it.unfinished(["job"], owner=SPEAKER),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_one_command(backend, monitor, operation):
    OPERATIONS["claim"](backend)
    OPERATIONS[operation](backend)  # so that the server knows the script
    monitor.said()
    OPERATIONS[operation](backend)
    assert monitor.said() == ["EVALSHA"]


def test_a_batch_is_one_command(backend, monitor):
    wishes = [wish(f"job-{number}", SLOT.slot_ms) for number in range(512)]
    for _ in range(2):
        answers = backend.claim(wishes, owner=A, wins=512, pace=Pace(0.0)).answers
        assert {type(answer).__name__ for answer in answers} == {"Won"}
    assert monitor.said() == ["EVALSHA", "EVAL", "EVALSHA"]


def test_nothing_is_said_while_nothing_is_asked(backend, monitor):
    OPERATIONS["claim"](backend)
    monitor.said()
    time.sleep(1.5)
    assert monitor.said() == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_forgot_the_script_is_sent_it_again(server, backend, monitor, operation):
    OPERATIONS["claim"](backend)
    OPERATIONS[operation](backend)
    server.ask("SCRIPT", "FLUSH")
    monitor.said()
    OPERATIONS[operation](backend)
    assert monitor.said() == ["EVALSHA", "EVAL"]


def connections(server):
    """Return how many clients there are beside the one that asks."""
    return len(server.ask("CLIENT", "LIST").decode().splitlines()) - 1


def test_two_calls_at_once_need_two_connections(server, backend):
    gate = threading.Barrier(2)

    def work():
        for number in range(50):
            gate.wait()
            claim(backend, "job", SLOT.slot_ms - number)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connections(server) == 2
    backend.history("job", limit=5)
    backend.pause("job", duration_ms=0)
    assert connections(server) == 2


def test_after_close_nothing_is_left(server):
    backend = RedisBackend(server.url)
    for _ in range(2):
        backend.open(Limits())
        claim(backend, "job", SLOT.slot_ms)
        assert connections(server) == 1
        backend.close()
        assert connections(server) == 0
    assert backend.history("job", limit=5)
    assert connections(server) == 0


def test_a_key_never_expires(server, backend):
    for number in range(3):
        claim(backend, "job", SLOT.slot_ms + number)
        finish(backend, "job", SLOT.slot_ms + number)
    backend.pause(None, duration_ms=10)
    backend.pause("job", duration_ms=10)
    for operation in ("trigger", "alert", "present"):
        OPERATIONS[operation](backend)
    keys = server.ask("KEYS", "*")
    assert {key.decode() for key in keys} <= set(scripts.keys_of("anarchon"))
    assert [server.ask("TTL", key) for key in keys] == [-1] * len(keys)


def test_a_lost_race_writes_nothing(server, backend):
    OPERATIONS["claim"](backend)
    OPERATIONS["alert"](backend)
    before = server.info("persistence")["rdb_changes_since_last_save"]
    for _ in range(5):
        OPERATIONS["lost"](backend)
        backend.look(["job"], owner=SPEAKER)
        backend.alert([SLOT], owner=B)
        OPERATIONS["history"](backend)
        OPERATIONS["instances"](backend)
    assert server.info("persistence")["rdb_changes_since_last_save"] == before


def test_scripts_call_only_what_the_documentation_lists():
    called = set()
    for name, text in LUA.items():
        found = re.findall(r"(?:call|try)\('(\w+)'", text)
        called |= {word.lower() for word in found}
        assert not re.search(r"[^p]call\((?!')", text), name
    assert called == RIGHTS


def test_scripts_have_a_header_and_short_lines():
    for name, text in LUA.items():
        assert text.startswith("-- "), name
        assert "KEYS" in text.partition("\n\n")[0] or name == "lines.lua", name
        for line in text.splitlines():
            assert len(line) <= 100, (name, line)
