"""An instance in the foreground, in processes: how it begins, what it waits for, how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest

from anarchon import _commands
from tests.commands.helpers import ended, environment, first_success
from tests.servers.redis import RedisServer

FOREGROUND = r"""
import json, sys, time
from anarchon import RedisBackend, Scheduler, SqliteBackend, _commands
from anarchon._store_urls import backend_at
backend = backend_at(sys.argv[1], what="it")
scheduler = Scheduler(backend, lease="3s", heartbeat="500ms")
say = lambda text: print(text + "\n", end="", flush=True)  # in one piece
if sys.argv[2] == "quick":
    scheduler.every("sync", "300ms", lambda: None)
    tell = lambda run: say(json.dumps(run.to_dict()))
else:
    for number in range(int(sys.argv[2])):
        scheduler.every(f"slow-{number}", "1h", lambda: (say("begun"), time.sleep(60)))
    tell = None
answer = _commands.run(scheduler, say=say, tell=tell)
print(scheduler.state)
sys.exit(answer.status)
"""
SLOT = r"\d{4}-\d\d-\d\dT\d\d:00:00\.000Z"


def foreground(address: object, how: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, str(address), str(how)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def assert_quiet(err: str) -> None:
    """Nothing is said but what may happen to a run on a busy machine, or as the signal comes."""
    said = re.compile(r"sync @ \S+: (interrupted|missed)\b")
    assert all(said.match(line) for line in err.splitlines()), err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_goes_on_until_a_signal(tmp_path, number):
    with ended(foreground(f"sqlite:///{tmp_path}/jobs.db", "quick")) as process:
        first = process.stdout.readline()
        assert first.startswith("1 job on <SqliteBackend ")
        assert first.endswith("; Ctrl-C or SIGTERM stops it\n")
        assert first_success(process)["job"] == "sync"
        process.send_signal(number)
        rest, err = process.communicate(timeout=15)
        *runs, last = rest.splitlines()
        assert (last, process.returncode) == ("idle", 0)
        assert_quiet(err)
        assert {json.loads(line)["status"] for line in runs} <= {"success", "interrupted", "missed"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_takes_long_names_what_it_waits_for(tmp_path, number):
    with ended(foreground(f"sqlite:///{tmp_path}/jobs.db", 7)) as process:
        process.stdout.readline()
        assert [process.stdout.readline() for _ in range(7)] == ["begun\n"] * 7
        process.send_signal(number)
        said = process.stdout.readline()
        # The answers of listeners may be in any order.
        form = (
            rf"waiting up to 30s for (slow-\d @ {SLOT}, ){{4}}slow-\d @ {SLOT} and 2 other runs;"
            " a second Ctrl-C or SIGTERM ends at once\n"
        )
        assert re.fullmatch(form, said), said
        process.send_signal(number)  # at once
        out, _ = process.communicate(timeout=15)
        assert (out, process.returncode) == ("", -number)


def test_a_store_that_is_down_is_waited_for(own_server):
    server = own_server(RedisServer(password="hunter2", persist=True))
    address = server.url
    server.kill()
    with ended(foreground(address.replace("//", "//:hunter2@"), "quick")) as process:
        assert process.stdout.readline().startswith("1 job on <RedisBackend ")
        said = process.stdout.readline()
        assert said.startswith(f"waiting for the store: Redis at {address} can't be asked")
        server.start()
        assert process.stdout.readline() == "the store is there; jobs run now\n"
        assert first_success(process)["job"] == "sync"
        process.terminate()
        _, err = process.communicate(timeout=15)
        assert process.returncode == 0
        assert_quiet(err)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting(number):
    with ended(foreground("redis://:hunter2@127.0.0.1:1/0", "quick")) as process:
        process.stdout.readline()
        assert "waiting for the store: " in process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=15)
        assert (out, err, process.returncode) == ("idle\n", "", 0)


def test_what_is_no_outage_is_not_waited_for(tmp_path):
    """A driver that is missing, or a store of another format, comes by no waiting."""
    program = FOREGROUND.replace("answer =", "sys.modules['redis'] = None\nanswer =")
    program = program.replace("print(scheduler.state)", "print(answer.error)")
    done = subprocess.run(
        [sys.executable, "-c", program, "redis://127.0.0.1:1", "quick"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=30,
        check=False,
    )
    assert done.returncode == _commands.NOT_MEANT
    assert "anarchon[redis]" in done.stdout.splitlines()[-1]
