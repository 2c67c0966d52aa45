"""Names are data: whatever is in them, no two namespaces and no two jobs ever meet."""

from __future__ import annotations

import itertools
import re

import pytest

from anarchon._values import Closed, Limits, Owner, Won
from anarchon.backends import _redis_scripts as scripts
from anarchon.backends.redis import RedisBackend
from tests.stores.helpers import claim, finish, now_ms

STRANGE = (
    *("a", "A", "a:b", "a:b:c", "{a}", "{a", "a}", "}{", "a b", "a  b", "a\\b", 'a"b', "a'b"),
    *("*", "?", "[a]", "%", "%61", "_", "é", "e\u0301", "😀", "x" * 200, "😀" * 200, "job"),
)


def test_no_key_of_a_namespace_is_one_of_another():
    keys = [key for name in STRANGE for key in scripts.keys_of(name)]
    assert len(set(keys)) == len(keys)
    prefixes = [scripts.prefix_of(name) for name in STRANGE]
    for one, other in itertools.permutations(prefixes, 2):
        assert not one.startswith(other)


@pytest.mark.parametrize("name", STRANGE)
def test_the_hash_tag_of_a_namespace_is_whole(name):
    tags = {re.search("{([^}]*)}", key)[1] for key in scripts.keys_of(name)}
    assert len(tags) == 1
    assert tags != {""}


def test_namespaces_never_meet(shared_server):
    url = shared_server("redis-8.2").url
    backends = [RedisBackend(url, namespace=f"n{name[:199]}") for name in STRANGE]
    slot_ms = now_ms()
    for backend in backends:
        backend.open(Limits())
    for backend in backends:
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert finish(backend, "job", slot_ms).status == "success"
    for backend in backends:
        assert len(backend.history(None, limit=9)) == 1
        backend.close()


JOBS = (*STRANGE, "", "\0", "\1", "\0\0", "\0\1", "\1\1", "\1\2", "a\0", "a\0b", "a\1", "a\1\1b")


def test_jobs_never_meet(shared_server):
    backend = RedisBackend(shared_server("redis-8.2").url, namespace="jobs never meet")
    backend.open(Limits())
    slot_ms = now_ms()
    for job in JOBS:
        assert isinstance(claim(backend, job, slot_ms), Won)
    for job in JOBS:
        (run,) = backend.unfinished([job], owner=Owner("b", "b")).wrong
        assert run.key.job == job
        assert [run.job for run in backend.history(job, limit=9)] == [job]
        assert isinstance(claim(backend, job, slot_ms - 5), Closed)
    assert {run.job for run in backend.history(None, limit=999)} == set(JOBS)
    backend.close()


def test_history_of_all_is_in_the_order_of_names(shared_server):
    backend = RedisBackend(shared_server("redis-8.2").url, namespace="order of names")
    backend.open(Limits())
    slot_ms = now_ms()
    for job in JOBS:
        claim(backend, job, slot_ms)
    told = [run.job for run in backend.history(None, limit=999)]
    assert told == sorted(JOBS, reverse=True)
    backend.close()
