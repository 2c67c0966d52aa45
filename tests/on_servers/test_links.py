"""The connections of a backend: what happens to the others when one of them fails."""

from __future__ import annotations

import threading
import time

import pytest

from anarchon import BackendUnavailable
from anarchon._values import Limits, Owner
from anarchon.backends import _aside
from tests.servers.places import SINGLE

ME = Owner("me", "me")


@pytest.mark.parametrize("store", SINGLE, indirect=True)
def test_a_repeat_never_meets_a_connection_that_died_with_the_first(backend, proxy):
    """Two were idle when the server ended both: one call fails, and the next has a new one."""
    backend.open(Limits())
    backend.prepare([])
    meet = threading.Barrier(2)

    def ask(link):
        meet.wait(5)  # so that each needs a connection of its own

    until = time.monotonic() + 10
    both = [threading.Thread(target=backend._often, args=(ask, until)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(backend._idle) == 2
    proxy.reset_all()
    with pytest.raises(BackendUnavailable):
        backend.look(["job"], owner=ME)
    assert backend.look(["job"], owner=ME).wrong == ()


def test_without_threads_a_call_that_can_not_be_cut_short_is_made_in_place(monkeypatch):
    """As at the end of an interpreter, which allows no new ones from 3.12 on."""

    def none_left(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_aside, "start_new_thread", none_left)
    here = _aside.within(threading.get_ident, 1.0, late=lambda _: None)
    assert here == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        _aside.within(lambda: 1 // 0, 1.0, late=lambda _: None)
