"""Two services on one file: with two namespaces they never meet."""

from __future__ import annotations

import sqlite3
import time

import pytest

from anarchon._values import Lost, Owner, Pace, RunKey, SkipWish, Won
from tests.stores.helpers import claim, finish, lease, now_ms, opened

A, B = Owner("a", "a"), Owner("b", "b")


@pytest.fixture
def pair(tmp_path):
    with (
        opened(tmp_path / "jobs.db", namespace="shop") as shop,
        opened(tmp_path / "jobs.db", namespace="shop2") as news,
    ):
        yield shop, news


def test_one_s_runs_are_nothing_to_the_other(pair):
    """BR-032."""
    shop, news = pair
    slot_ms = now_ms()
    assert isinstance(claim(shop, "job", slot_ms, by="a"), Won)
    assert news.look(["job"], owner=B).others == 0
    assert news.unfinished(["job"], owner=B).wrong == ()
    assert news.renew([lease("job", slot_ms)], owner=A, lease_ms=1).lost
    assert not news.save(lease("job", slot_ms), owner=A, value="x")
    assert not news.cancel(RunKey("job", slot_ms))
    assert news.history(None, limit=9) == []
    assert news.history("job", limit=9) == []
    wishes = [SkipWish(RunKey("job", slot_ms - 1), slot_ms - 1, "why")]
    assert news.skip(wishes, owner=B, pace=Pace(time.monotonic())).open == ()
    assert isinstance(claim(news, "job", slot_ms, by="b"), Won)
    assert isinstance(finish(news, "job", slot_ms, by="a"), Lost)
    assert [run.status for run in shop.history("job", limit=9)] == ["running"]


def test_one_s_pauses_do_not_stop_the_other(pair):
    shop, news = pair
    shop.pause(None, duration_ms=None)
    shop.pause("job", duration_ms=None)
    assert isinstance(claim(news, "job", now_ms()), Won)
    news.resume(None)
    news.resume("job")
    assert not isinstance(claim(shop, "job", now_ms()), Won)


def test_one_s_history_does_not_push_out_the_other_s(pair):
    shop, news = pair
    slot_ms = now_ms() - 10_000
    for n in range(3):
        claim(shop, "job", slot_ms + n)
        finish(shop, "job", slot_ms + n)
    for n in range(130):
        claim(news, "job", slot_ms + n)
        finish(news, "job", slot_ms + n)
    assert len(shop.history("job", limit=999)) == 3
    assert len(news.history("job", limit=999)) == 100
    assert isinstance(claim(shop, "job", slot_ms + 3), Won)


def test_their_fences_are_their_own(pair):
    shop, news = pair
    slot_ms = now_ms()
    high = 2**52
    claim(shop, "job", slot_ms, skip_overlap=False)
    rows = sqlite3.connect(shop.database)
    rows.execute("UPDATE anarchon_job SET fence = ? WHERE namespace = 'shop'", (high,))
    rows.commit()
    rows.close()
    assert claim(shop, "job", slot_ms + 1, skip_overlap=False).fence == high + 1
    assert claim(news, "job", slot_ms).fence < high
