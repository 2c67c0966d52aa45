"""A process whose threads only compute renews its lease late, and in time all the same."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.embedding.servers_running import HERE, long_job

pytestmark = pytest.mark.serial

LEASE = 6.0  # with a heartbeat of a second; each step of a renewal waits for its turn


def test_sixteen_busy_threads_for_three_leases_lose_nothing(site):
    options = site.options(long_job(seconds=3 * LEASE), lease=LEASE, heartbeat=1)
    busy = site.start([sys.executable, str(HERE / "servers_computing.py")], options)
    busy.expect("begin")
    backup = site.backup(options)
    assert busy.expect("end")["reason"] is None
    site.wait_for_attempts("work", [(1, "success")])
    assert backup == []
    busy.send(signal.SIGTERM)
    busy.end()
