"""A rolling deploy with real servers: new fleet up, SIGTERM to the old, and no slot is lost."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.embedding.servers_running import HEARTBEAT, LEASE, SLACK, long_job

pytestmark = pytest.mark.serial

HAND_OVER = 2 * HEARTBEAT + SLACK
assert LEASE - HEARTBEAT > HAND_OVER  # even the shortest rest of a lease is longer
TICK = {"name": "tick", "every": "1s", "seconds": 0}


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
def test_a_rolling_deploy_loses_no_slot_and_hands_over_at_once(site, preload):
    """Two fleets of two servers each; the old ones go one after another, as pods do."""
    options = site.options(TICK, long_job())
    words = ("-k", "gthread", "-w", "2", *preload)
    old = [site.gunicorn(*words, options=options) for _ in range(2)]
    runner = old[0].expect("begin", job="work")["pid"]
    old[0].expect("begin", job="tick", count=2)
    new = [site.gunicorn(*words, options=options) for _ in range(2)]
    fresh = {pid for server in new for pid in server.states(2)}
    assert len(fresh) == 4
    # First the server whose worker has the long run.
    old.sort(key=lambda server: runner not in server.started(2))
    for server in old:
        sent = server.send(signal.SIGTERM)
        server.end()
        if server is old[0]:
            again = server.expect("begin", job="work", attempt=2)
            assert again["reason"] == "takeover"
            assert again["at"] - sent < HAND_OVER
    attempts = new[0].events("begin", job="work")
    new[0].wait_for(
        lambda: new[0].events("begin", job="work")[-1]["pid"] in fresh, "a run in the new fleet"
    )
    # One for each old server that had it, and one that goes on.
    assert [event["attempt"] for event in attempts] in ([1, 2], [1, 2, 3])
    before = len(new[0].events("begin", job="tick"))
    new[0].wait_for(lambda: len(new[0].events("begin", job="tick")) >= before + 3, "more slots")
    begun = Counter(event["slot"] for event in new[0].events("begin", job="tick"))
    assert set(begun.values()) == {1}
    assert sorted(begun) == list(range(min(begun), max(begun) + 1, 1000))
    succeeded = site.slots("tick")
    assert len(succeeded) == len(set(succeeded))
    assert set(begun) - {max(begun)} <= set(succeeded)  # the last one may be going on
