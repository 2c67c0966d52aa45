"""What somebody else wrote into a namespace breaks nothing but what it belongs to."""

from __future__ import annotations

import json
import os
import re

import pytest

from anarchon._values import Closed, Held, Limits, Lost, Owner, Presence, RunKey, Won
from anarchon.backends._redis_scripts import PARTS, keys_of
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendError
from tests.stores.helpers import claim, finish, lease, now_ms

A = Owner("a", "a")
RUN_FIELDS, LINE_FIELDS, JOB_FIELDS = 17, 9, 5


@pytest.fixture
def server(shared_server):
    return shared_server("redis-8.2")


class Store:
    """A backend on a namespace of its own, and its keys by name."""

    def __init__(self, server):
        namespace = f"damage {os.urandom(8).hex()}"
        self.ask = server.ask
        self.backend = RedisBackend(server.url, namespace=namespace)
        self.backend.open(Limits())
        self.key = dict(zip(PARTS, keys_of(namespace), strict=True))

    def fields(self, part):
        return self.ask("HKEYS", self.key[part])

    def spoil(self, part, place, value):
        """Put another value at a place of every array that a hash holds."""
        for field in self.fields(part):
            values = json.loads(self.ask("HGET", self.key[part], field))
            values[place] = value
            self.ask("HSET", self.key[part], field, json.dumps(values))

    def replace(self, part, raw):
        for field in self.fields(part):
            self.ask("HSET", self.key[part], field, raw)


@pytest.fixture
def store(server):
    store = Store(server)
    yield store
    store.backend.close()


RAW = (b"", b"\xff\xfe", b"{}", b"[]", b"7", b'"x"', b"[1,", b"null", b"[" * 2000, b'{"a":1}')
ODD = (None, "x", -1, 1.5, 2**60, "", True, [1], {"a": 1}, 1e300)


def goes_on(store, slot_ms):
    """Show that this job and another one go on."""
    for job in ("job", "other"):
        assert isinstance(claim(store.backend, job, slot_ms), Won)
        assert finish(store.backend, job, slot_ms).status == "success"
        assert store.backend.history(job, limit=1)[0].status == "success"
    store.backend.history(None, limit=50)
    store.backend.look(["job", "other"], owner=A)


@pytest.mark.parametrize("raw", RAW)
def test_a_run_that_can_not_be_read_is_decided(store, raw):
    slot_ms = now_ms() - 1000
    claim(store.backend, "job", slot_ms)
    store.replace("runs", raw)
    answer = claim(store.backend, "job", slot_ms, by="b")
    assert isinstance(answer, Closed)
    assert (answer.status, answer.detail, answer.by) == ("lost", "unreadable record", "")
    assert isinstance(finish(store.backend, "job", slot_ms), Lost)
    assert store.backend.renew([lease("job", slot_ms)], owner=A, lease_ms=9).lost
    assert not store.backend.save(lease("job", slot_ms), owner=A, value="1")
    assert not store.backend.cancel(lease("job", slot_ms).key)
    assert store.backend.unfinished(["job"], owner=A).wrong == ()
    assert [run.status for run in store.backend.history("job", limit=5)] == ["lost"]
    goes_on(store, slot_ms + 100)


@pytest.mark.parametrize("place", range(RUN_FIELDS))
def test_odd_values_of_a_run_harm_only_its_slot(store, place):
    slot_ms = now_ms() - 1000
    for value in ODD:
        slot_ms += 20
        claim(store.backend, "job", slot_ms, skip_overlap=False)
        store.spoil("runs", place, value)
        claim(store.backend, "job", slot_ms, by="b", attempt=2, beat=0)
        claim(store.backend, "job", slot_ms + 1, by="b")
        finish(store.backend, "job", slot_ms)
        store.backend.history("job", limit=9, status="lost")
        store.ask("DEL", store.key["runs"], store.key["open"])
    goes_on(store, slot_ms + 100)


def test_lines_that_nobody_wrote_are_not_counted(store):
    """An attempt that says of itself that it is the 2**50th would keep the server for days."""
    slot_ms = now_ms() - 1000
    claim(store.backend, "job", slot_ms)
    store.spoil("runs", 1, 100_001)
    store.ask("CONFIG", "RESETSTAT")
    assert [run.attempt for run in store.backend.history("job", limit=9)] == [1]
    answer = claim(store.backend, "job", slot_ms)
    assert (answer.status, answer.detail) == ("lost", "unreadable record")
    stats = store.ask("INFO", "commandstats").decode()
    assert int(re.search(r"cmdstat_hget:calls=(\d+)", stats)[1]) < 20


@pytest.mark.parametrize("raw", RAW)
def test_a_line_that_can_not_be_read_is_not_shown(store, raw):
    slot_ms = now_ms() - 1000
    claim(store.backend, "job", slot_ms)
    store.replace("lines", raw)
    assert store.backend.history("job", limit=5) == []
    assert finish(store.backend, "job", slot_ms).status == "success"
    again = claim(store.backend, "job", slot_ms)
    assert isinstance(again, Closed)
    assert again.run.status == "success"
    goes_on(store, slot_ms + 100)


@pytest.mark.parametrize("place", range(LINE_FIELDS))
def test_odd_values_of_a_line_are_left_out(store, place):
    slot_ms = now_ms() - 1000
    for value in ODD:
        slot_ms += 20
        claim(store.backend, "job", slot_ms)
        finish(store.backend, "job", slot_ms, error="E", traceback="T", detail="D")
        store.spoil("lines", place, value)
        for run in store.backend.history("job", limit=99):
            assert isinstance(run.error, str | None)
            str(run)
    goes_on(store, slot_ms + 100)


@pytest.mark.parametrize("place", range(JOB_FIELDS))
def test_odd_values_of_a_job_count_as_never_stored(store, place):
    slot_ms = now_ms() - 1000
    claim(store.backend, "job", slot_ms)
    finish(store.backend, "job", slot_ms)
    for value in ODD:
        store.spoil("jobs", place, value)
        slot_ms += 20
        assert isinstance(claim(store.backend, "job", slot_ms), Won)
        finish(store.backend, "job", slot_ms)
    goes_on(store, slot_ms + 100)


@pytest.mark.parametrize("raw", RAW)
def test_a_job_or_a_pause_that_can_not_be_read_is_none(store, raw):
    store.backend.pause("job", duration_ms=None)
    store.backend.pause(None, duration_ms=None)
    store.replace("jobs", raw)
    store.ask("HSET", store.key["meta"], "paused", raw or b"x")
    if raw != b"7":  # which is a pause that ended long ago
        store.ask("HSET", store.key["meta"], "format", raw)
    goes_on(store, now_ms())


ODD_IDS = ("", "x", "\0", "\0\0", "job\0x\0", "job\0" + "9" * 15, "job\0-00000000000001\0", "\xff")


@pytest.mark.parametrize("part", ["open", "kept", "skips", "order", "orders"])
def test_odd_ids_are_passed_by(store, part):
    slot_ms = now_ms() - 1000
    for odd in (*ODD_IDS, f"job\0{slot_ms + 62135596800000 + 900:015}\0"):
        store.ask("ZADD", store.key[part], 0, odd)
    for number in range(30):
        claim(store.backend, "job", slot_ms + number)
        finish(store.backend, "job", slot_ms + number)
    goes_on(store, slot_ms + 950)


def test_a_run_without_its_place_is_finished_all_the_same(store):
    slot_ms = now_ms() - 1000
    claim(store.backend, "job", slot_ms)
    store.ask("DEL", store.key["open"], store.key["order"])
    assert isinstance(claim(store.backend, "job", slot_ms, by="b"), Held)
    assert finish(store.backend, "job", slot_ms).status == "success"
    goes_on(store, slot_ms + 100)


def test_records_that_can_not_be_read_are_trimmed_at_last(store):
    slot_ms = now_ms() - 1000
    for number in range(30):
        claim(store.backend, "job", slot_ms + number)
        finish(store.backend, "job", slot_ms + number)
    store.replace("runs", b"x")
    for number in range(30, 130):
        claim(store.backend, "job", slot_ms + number)
        finish(store.backend, "job", slot_ms + number)
    assert len(store.fields("runs")) == len(store.fields("lines")) == 100
    assert isinstance(claim(store.backend, "job", slot_ms), Closed)


@pytest.mark.parametrize("part", PARTS)
def test_a_key_of_another_kind_is_told(store, part):
    store.ask("DEL", store.key[part])
    store.ask("SET", store.key[part], "x")
    with pytest.raises(BackendError, match="somebody else uses keys") as caught:
        use_every_key(store, now_ms())
    assert type(caught.value) is BackendError
    store.ask("DEL", store.key[part])


def use_every_key(store, slot_ms):
    claim(store.backend, "job", slot_ms)
    store.backend.save(lease("job", slot_ms), owner=A, value="1")
    finish(store.backend, "job", slot_ms)
    store.backend.pause("job", duration_ms=None)
    claim(store.backend, "job", slot_ms + 1)
    store.backend.trigger([RunKey("job", slot_ms, "trigger-1")], data="1")
    store.backend.alert([RunKey("job", slot_ms + 2)], owner=A)
    store.backend.present(A._replace(presence=Presence(slot_ms, "{}", "{}")))
    store.backend.history(None, limit=1)
