"""What is special about the store in memory: who shares it, and for how long it lives."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from anarchon._values import Held, Limits, Recorded, Won
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import BackendUnavailable, ConfigurationError
from tests.stores.helpers import claim, finish, now_ms


def test_it_lives_as_long_as_the_object():
    backend, slot_ms = MemoryBackend(), now_ms()
    backend.open(Limits())
    claim(backend, "job", slot_ms)
    backend.close()
    assert len(backend.history("job", limit=9)) == 1
    with pytest.raises(BackendUnavailable, match="not open"):
        claim(backend, "job", slot_ms)
    backend.open(Limits())
    assert isinstance(finish(backend, "job", slot_ms), Recorded)


def test_one_user_s_close_is_not_the_other_s():
    backend, slot_ms = MemoryBackend(), now_ms()
    for _ in range(3):
        backend.open(Limits())
    claim(backend, "job", slot_ms)
    backend.close()
    backend.close()
    assert isinstance(claim(backend, "job", slot_ms, by="b"), Held)
    backend.close()
    backend.close()
    with pytest.raises(BackendUnavailable):
        claim(backend, "job", slot_ms)


def test_two_objects_never_see_each_other():
    one, other, slot_ms = MemoryBackend(), MemoryBackend(), now_ms()
    one.open(Limits())
    other.open(Limits())
    assert isinstance(claim(one, "job", slot_ms, by="a"), Won)
    assert isinstance(claim(other, "job", slot_ms, by="b"), Won)


def test_open_tells_what_it_is():
    backend = MemoryBackend(namespace="shop")
    info = backend.open(Limits())
    assert (info.store, info.steady) == ("memory", True)
    assert repr(backend) == "<MemoryBackend namespace='shop'>"
    with pytest.raises(ConfigurationError):
        MemoryBackend(namespace="")


def test_a_child_begins_with_an_empty_store_and_free_locks():
    """The parent's runs are none of its business: it must not take them over."""
    backend, slot_ms = MemoryBackend(), now_ms()
    backend.open(Limits())
    claim(backend, "job", slot_ms)
    with backend._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            fresh = backend.history(None, limit=9) == []
            backend.open(Limits())
            fresh = fresh and isinstance(claim(backend, "job", slot_ms, by="child"), Won)
            os._exit(0 if fresh else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert isinstance(finish(backend, "job", slot_ms), Recorded)
