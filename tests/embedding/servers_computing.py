"""A service whose one job keeps sixteen threads computing."""

from __future__ import annotations

import threading
import time

from servers_app import OPTIONS, SqliteBackend, say

from anarchon import Scheduler


def compute(ctx):
    say("begin", attempt=ctx.attempt)
    until = time.monotonic() + ctx.data["seconds"]

    def work():
        while time.monotonic() < until and not ctx.signal.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("end", attempt=ctx.attempt, reason=ctx.signal.reason)


[job] = OPTIONS["jobs"]
times = {"lease": OPTIONS["lease"], "heartbeat": OPTIONS["heartbeat"]}
scheduler = Scheduler(SqliteBackend(OPTIONS["store"]), log=True, **times)
scheduler.once(job["name"], job["once"], compute, data=job)
scheduler.run()
