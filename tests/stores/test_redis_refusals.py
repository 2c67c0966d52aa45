"""What a Redis refuses, and what is said about it: rights, memory, replicas, versions."""

from __future__ import annotations

import json
import re
import shlex
import threading
from pathlib import Path

import pytest

from anarchon._values import Limits, Owner, Presence, RunKey, Won
from anarchon.backends import _redis_findings as findings
from anarchon.backends._redis_doors import _without
from anarchon.backends._redis_errors import explained
from anarchon.backends._redis_scripts import keys_of
from anarchon.backends._redis_talk import ReplyError
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendError, BackendUnavailable, ServerTooOld
from tests.servers.processes import wait_until
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, finish, now_ms

PAGE = Path(__file__).resolve().parents[2] / "docs" / "redis.md"
REDISES = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-8")
CALLED = "+time +hget +hset +hdel +hexists +hrandfield +zadd +zrem +zrangebylex +zrevrangebylex"
SENT = "+eval +evalsha +wait"
RULES = {
    "least": f"~anarchon:{{mine}}:* {SENT} {CALLED}",
    "reader": f"~anarchon:{{mine}}:* {SENT} {CALLED} -zrem",
    "filer": f"~anarchon:{{mine}}:* {SENT} {CALLED} -hset",
    "mute": f"~anarchon:{{mine}}:* {SENT} {CALLED} -evalsha",
    "stranger": f"~other:* {SENT} {CALLED}",
}


def ask(url, call=lambda backend: backend.prepare([]), **options):
    """Open a backend, make a call, and close it."""
    backend = RedisBackend(url, **options)
    try:
        backend.open(Limits(2.0, 2.0, 2.0))
        return call(backend)
    finally:
        backend.close()


def refused(url, *words, call=lambda backend: backend.prepare([]), **options):
    """Return the error of a call, which says these words."""
    with pytest.raises(BackendError) as caught:
        ask(url, call, **options)
    assert all(word in str(caught.value) for word in words), caught.value
    assert isinstance(caught.value, BackendUnavailable)
    return caught.value


# --- rights -----------------------------------------------------------------------


@pytest.fixture(scope="module", params=REDISES)
def guarded(request):
    acl = [f"{name} on >{name} resetchannels {rule}" for name, rule in RULES.items()]
    with RedisServer(request.param, acl=acl) as server:
        yield server


def url_for(server, user, password=None):
    return f"redis://{user}:{password or user}@{server.host}:{server.port}"


def everything(backend):
    """Prepare a store and use it."""
    backend.prepare(["job"])
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    finish(backend, "job", slot_ms)
    backend.pause("job", duration_ms=1)
    backend.trigger([RunKey("job", slot_ms, "trigger-1")], data=None)
    owner = Owner("a", "a", Presence(slot_ms, "{}", "{}"))
    assert backend.look(["job"], owner=owner).others
    backend.alert([RunKey("job", slot_ms)], owner=owner)
    backend.present(owner)
    assert [one.token for one in backend.instances().instances] == ["a"]
    assert backend.history("job", limit=5)


def test_least_rights_suffice(guarded):
    ask(url_for(guarded, "least"), everything, namespace="mine")
    ask(url_for(guarded, "least"), everything, namespace="mine", durability=None)


def test_the_rights_on_the_page_suffice(guarded):
    """And one less doesn't."""
    [line] = re.findall(r"^\$ redis-cli (.+)$", PAGE.read_text(), re.MULTILINE)
    words = shlex.split(line)
    guarded.ask(*words)
    url = url_for(guarded, "jobs", "password")
    ask(url, everything, namespace="shop")
    granted = [word for word in words if word.startswith("+") and word != "+eval"]
    assert len(granted) == 12
    for word in granted:
        guarded.ask(*words, f"-{word[1:]}")
        refused(url, "grant what is missing", namespace="shop", durability="wait:1")


@pytest.mark.parametrize(("user", "word"), [("reader", "ZREM"), ("mute", "evalsha")])
def test_a_missing_command_is_named(guarded, user, word):
    refused(url_for(guarded, user), "NOPERM", word, "grant", namespace="mine")


def test_a_missing_command_is_named_also_where_others_prepared(guarded):
    ask(url_for(guarded, "least"), namespace="mine")
    refused(url_for(guarded, "filer"), "NOPERM", "HSET", "grant", namespace="mine")


def test_missing_keys_are_named(guarded):
    refused(url_for(guarded, "stranger"), "NOPERM", "~anarchon:{mine}:*", namespace="mine")
    refused(url_for(guarded, "least"), "NOPERM", "~anarchon:{yours}:*", namespace="yours")


def test_a_wrong_password_is_told(guarded):
    refused(url_for(guarded, "least", "wrong-one"), "WRONGPASS", namespace="mine")


def test_a_missing_password_is_told(own_server):
    server = own_server(RedisServer("redis-8.2", password="s3cr3t"))
    refused(server.url, "unauthenticated", "give one in the URL")
    ask(server.url.replace("redis://", "redis://:s3cr3t@"))


def test_a_server_without_passwords_refuses_one(shared_server):
    server = shared_server("redis-8.2")
    with pytest.raises(BackendError) as caught:
        ask(f"redis://:s3cr3t@{server.host}:{server.port}")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("password", ["user", "S", "WRONGPASS", "s3cr3t", "or", "'"])
def test_a_password_that_is_a_common_word_garbles_no_error(password):
    said = "WRONGPASS invalid username-password pair or user is disabled."
    error = _without(password, ReplyError(said))
    assert (str(error), error.code) == (said, "WRONGPASS")


@pytest.mark.parametrize("password", ["s3cr3t", "a.b", "it's"])
@pytest.mark.parametrize(
    "text",
    [
        "ERR unknown command 'AUTH', with args beginning with: 'user' '{}' ",
        "ERR unknown command `AUTH`, with args beginning with: `user`, `{}`, ",
        "ERR '{}' is not the password",
    ],
)
def test_a_password_that_an_error_quotes_is_left_out(text, password):
    error = _without(password, ReplyError(text.format(password)))
    assert error.code == "ERR"
    assert password not in str(error)


# --- states of a server -----------------------------------------------------------


@pytest.mark.parametrize("variant", REDISES)
def test_a_replica_is_told(own_server, variant):
    primary = own_server(RedisServer(variant))
    replica = own_server(RedisServer(variant, primary=primary))
    refused(replica.url, "READONLY", "replica")
    refused(replica.url, "READONLY", call=lambda it: claim(it, "job", now_ms()))
    refused(primary.url, call=lambda it: stale(it, primary, replica))


def stale(backend, primary, replica):
    """Have a connection to a server that isn't the primary any more."""
    claim(backend, "job", now_ms())
    primary.ask("REPLICAOF", replica.host, replica.port)
    claim(backend, "job", now_ms())


@pytest.mark.parametrize("variant", REDISES)
def test_a_full_server_is_told(own_server, variant):
    server = own_server(RedisServer(variant))
    server.ask("CONFIG", "SET", "maxmemory", 1)
    refused(server.url, "OOM", "maxmemory")
    refused(server.url, "OOM", call=lambda it: claim(it, "job", now_ms()))


@pytest.mark.parametrize("variant", REDISES)
def test_a_server_without_replicas_is_told(own_server, variant):
    server = own_server(RedisServer(variant, settings={"min-replicas-to-write": 1}))
    refused(server.url, "NOREPLICAS", "min-replicas-to-write")


@pytest.mark.parametrize("variant", REDISES)
def test_a_server_that_can_not_save_is_told(own_server, variant):
    server = own_server(
        RedisServer(variant, settings={"save": (3600, 1000), "dbfilename": "d.rdb"})
    )
    (server.folder / "d.rdb").mkdir()  # root may write everywhere, but not over a folder
    (server.folder / "d.rdb" / "x").touch()
    server.ask("SET", "x", "y")
    server.ask("BGSAVE")

    def failed():
        return server.info("persistence")["rdb_last_bgsave_status"] == "err"

    wait_until(failed, "a save fails")
    refused(server.url, "MISCONF", "disk")


def test_a_server_that_loads_is_told(own_server):
    server = own_server(RedisServer("redis-7.0", persist=True, settings={"appendfsync": "no"}))
    with server.client() as client:
        for number in range(3000):
            client("SET", f"key-{number}", "x")
    server.stop()
    server.settings = {"key-load-delay": 700}  # µs; it answers after every 1024 keys
    starting = threading.Thread(target=server.start)
    starting.start()
    try:
        backend = RedisBackend(server.url)
        told = []

        def is_loading():
            try:
                backend.open(Limits(connect=2.0))
            except BackendUnavailable as error:
                told.append(str(error))
            finally:
                backend.close()
            return any("LOADING" in text for text in told)

        wait_until(is_loading, "the server says that it loads")
        assert "loaded its data" in told[-1]
    finally:
        starting.join()


def test_too_many_clients_are_no_reason_to_give_up(own_server):
    server = own_server(RedisServer("redis-8.2"))
    backend = RedisBackend(server.url)
    with server.client() as client:
        client("CONFIG", "SET", "maxclients", 1)
        with pytest.raises(BackendUnavailable):
            backend.history(None, limit=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MASTERDOWN Link with MASTER is down", "failover"),
        ("CLUSTERDOWN Hash slot not served", "missing nodes"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "moving"),
        ("BUSY Redis is busy running a script.", "busy"),
        ("ERR max number of clients reached", "clients"),
    ],
)
def test_states_that_pass_are_outages(text, words):
    error = explained(ReplyError(text), "redis://host", "anarchon:{x}:")
    assert isinstance(error, BackendUnavailable)
    assert words in str(error)


def test_what_will_not_change_is_no_outage():
    for text in ("ERR unknown command 'EVALSHA', with args", "WRONGTYPE Operation against a key"):
        error = explained(ReplyError(text), "redis://host", "anarchon:{x}:")
        assert not isinstance(error, BackendUnavailable)


# --- versions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "store"),
    [
        ({"redis_version": "6.2.0"}, ("redis", "6.2.0")),
        ({"redis_version": "255.255.255"}, ("redis", "255.255.255")),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, ("valkey", "7.2.5")),
        ({}, ("redis", "")),
        ({"redis_version": "unstable"}, ("redis", "unstable")),
    ],
)
def test_new_servers_will_do(facts, store):
    assert findings.version_of(facts) == store


@pytest.mark.parametrize(
    "facts",
    [
        {"redis_version": "6.0.16"},
        {"redis_version": "5.0.14"},
        {"redis_version": "7.2.4", "valkey_version": "7.0.0"},
    ],
)
def test_old_servers_will_not(facts):
    with pytest.raises(ServerTooOld, match=r"Redis 6\.2 or Valkey 7\.2"):
        findings.version_of(facts)


def test_a_server_that_may_not_say_its_version_is_found_out():
    with pytest.raises(ServerTooOld):
        findings.missing([["ZADD", "ERR syntax error"]])


@pytest.mark.parametrize("variant", REDISES)
def test_every_server_says_its_version(shared_server, variant):
    server = shared_server(variant)
    backend = RedisBackend(server.url)
    info = backend.open(Limits())
    backend.close()
    assert (info.store, info.version) == (variant.partition("-")[0], server.version)
    assert not info.steady


def test_a_newer_format_is_refused_by_every_call(shared_server):
    server = shared_server("redis-8.2")
    backend = RedisBackend(server.url, namespace="newer")
    backend.open(Limits())
    backend.prepare([])
    meta = keys_of("newer")[0]
    assert server.ask("HGET", meta, "format") == b"1"
    server.ask("HSET", meta, "format", 2)
    for call in (
        lambda: backend.open(Limits()),
        lambda: claim(backend, "job", now_ms()),
        lambda: backend.history(None, limit=1),
        lambda: backend.pause(None, duration_ms=1),
    ):
        with pytest.raises(BackendError, match=r"newer anarchon \(format 2\)") as caught:
            call()
        assert not isinstance(caught.value, BackendUnavailable)
    assert server.ask("HLEN", meta) == 1
    for _ in range(2):
        backend.close()


def test_the_format_is_written_again_after_a_flush(own_server):
    server = own_server(RedisServer("redis-8.2"))
    backend = RedisBackend(server.url)
    backend.open(Limits())
    backend.prepare([])
    server.ask("FLUSHALL")
    claim(backend, "job", now_ms())
    assert server.ask("HGET", keys_of("anarchon")[0], "format") == b"1"
    backend.close()


def test_a_format_that_is_no_number_counts_as_none(shared_server):
    server = shared_server("redis-8.2")
    meta, jobs = keys_of("odd")[:2]
    server.ask("HSET", meta, "format", "new")
    server.ask("HSET", jobs, "job", json.dumps(["x"]))
    ask(server.url, lambda backend: claim(backend, "job", now_ms()), namespace="odd")
    assert server.ask("HGET", meta, "format") == b"1"
