"""What `RedisBackend` takes; no password is ever shown, and nothing connects or is imported."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import redis

from anarchon import ConfigurationError, RedisBackend
from anarchon.errors import BackendError

CHECKOUT = Path(__file__).resolve().parents[2]
SECRET = "s3cr3t"


def said_by(error):
    """Return everything that is printed for an error, its causes among it."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://", "redis://localhost:6379/0"),
        (f"redis://:{SECRET}@host", "redis://host:6379/0"),
        (f"redis://user:{SECRET}@host:7000/3", "redis://host:7000/3"),
        (f"redis://user:{SECRET}%40%3A%2F%3F%23%25@[::1]:7000/3", "redis://::1:7000/3"),
        (f"rediss://user:{SECRET}@host?ssl_cert_reqs=none&db=2", "rediss://host:6379/2"),
        (f"unix://user:{SECRET}@/run/redis%20x.sock?db=1", "unix:///run/redis x.sock"),
    ],
)
def test_a_url_is_named_without_user_and_password(url, name):
    backend = RedisBackend(url, namespace="mine")
    assert repr(backend) == f"<RedisBackend {name} namespace='mine'>"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        f"http://:{SECRET}@host",
        f"redis://:{SECRET}/x@host:6379",
        f"redis://:1/{SECRET}@host:6379",
        f"redis://:{SECRET}#x@host:6379",
        f"redis://:{SECRET}@host:port",
        f"redis://:{SECRET}@[host",
        f"redis://:{SECRET}@host:6379/zero",
        f"redis://:{SECRET}@host:6379/-1",
        f"redis://:{SECRET}@host:99999",
        f"redis://:{SECRET}@host?db={SECRET}",
        f"unix://:{SECRET}@",
        f"redis://user:{SECRET}?y@h:1/0",
        f"redis://{SECRET}:12?rest@host",
        f"redis://:12?{SECRET}@host:6379",
        f"unix://:12/{SECRET}@/run/redis.sock",
        f"unix://:12?{SECRET}@/run/redis.sock",
        f"redis://host?password={SECRET}@",
    ],
)
def test_a_url_that_can_not_be_meant_is_refused(url):
    with pytest.raises(ConfigurationError) as caught:
        RedisBackend(url)
    assert "redis://user:password@host:6379/0" in str(caught.value)
    assert SECRET not in said_by(caught.value)


def test_it_is_refused_in_the_same_words_without_asserts():
    program = f"""
import traceback
from anarchon import ConfigurationError, RedisBackend
for url in ("redis://user:{SECRET}?y@h:1/0", "redis://h:99999/0", "redis://h:{SECRET}"):
    try:
        RedisBackend(url)
    except ConfigurationError as error:
        print("".join(traceback.format_exception(error)))
"""
    said = run(program, "-O")
    assert said.count("%40") == 3
    assert SECRET not in said


@pytest.mark.parametrize("what", [None, 7, b"redis://host", ("redis://host", "name"), [], object()])
def test_what_is_no_client_is_refused(what):
    with pytest.raises(ConfigurationError, match=r"redis\.RedisCluster"):
        RedisBackend(what)


def test_a_client_of_asyncio_is_refused():
    with pytest.raises(ConfigurationError, match=r"redis\.asyncio"):
        RedisBackend(redis.asyncio.Redis())


def test_a_client_is_named_without_its_password():
    client = redis.Redis("host", 7000, db=2, username="user", password=SECRET)
    assert repr(RedisBackend(client)) == "<RedisBackend redis://host:7000/2 namespace='anarchon'>"
    client = redis.Redis(unix_socket_path="/run/redis.sock", password=SECRET)
    assert "<RedisBackend unix:///run/redis.sock " in repr(RedisBackend(client))


def test_sentinel_is_named_by_its_master():
    sentinel = redis.Sentinel([("host", 26379)], sentinel_kwargs={"password": SECRET})
    for given in (sentinel.master_for("mine", password=SECRET), (sentinel, "mine")):
        assert "<RedisBackend sentinel:mine " in repr(RedisBackend(given))
    with pytest.raises(ConfigurationError, match="master_for"):
        RedisBackend(sentinel.slave_for("mine"))


@pytest.mark.parametrize(
    "durability", ["", "wait", "wait:", "wait:0", "wait:x", "wait:-1", 1, True]
)
def test_an_unknown_durability_is_refused(durability):
    with pytest.raises(ConfigurationError, match="wait:1"):
        RedisBackend("redis://", durability=durability)


@pytest.mark.parametrize("silence", [("nothing",), "persistence", ("persistence", "x"), [7]])
def test_an_unknown_finding_is_refused(silence):
    with pytest.raises(ConfigurationError, match="clock-offset, maxmemory-policy, persistence"):
        RedisBackend("redis://", silence=silence)


@pytest.mark.parametrize("namespace", ["", " x", "a\nb", "x" * 201, None])
def test_a_namespace_is_a_name(namespace):
    with pytest.raises(ConfigurationError, match="namespace"):
        RedisBackend("redis://", namespace=namespace)


@pytest.mark.parametrize("option", ["nonsense=1", "ssl_nonsense=1", "socket_keepalive_options=x"])
def test_an_option_that_redis_py_does_not_know_is_named(shared_server, option):
    server = shared_server("redis-8.2")
    backend = RedisBackend(f"redis://:{SECRET}@{server.host}:{server.port}?{option}")
    with pytest.raises(BackendError) as caught:
        backend.history(None, limit=1)
    assert SECRET not in said_by(caught.value)


def run(program, *options):
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_url_needs_no_driver_before_it_is_used():
    program = """
import sys
from anarchon import RedisBackend
RedisBackend("redis://host")
print("redis" in sys.modules)
"""
    assert run(program) == "False\n"


def test_a_missing_driver_names_what_to_install():
    program = """
import sys
sys.modules["redis"] = None
from anarchon import RedisBackend, Scheduler, every
backend = RedisBackend("redis://host")
for call in (Scheduler(backend=backend).start, lambda: backend.history(None, limit=1)):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    assert run(program).count("pip install 'anarchon[redis]'") == 2
