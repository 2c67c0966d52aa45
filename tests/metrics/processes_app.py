"""A service of several processes that shows the metrics of all of them."""

from __future__ import annotations

import json
import os

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from anarchon import Scheduler, SqliteBackend
from anarchon.contrib.prometheus import metrics

OPTIONS = json.loads(os.environ["EMBEDDED"])


def bad():
    raise ValueError("as planned")


def make_scheduler():
    timing = {"lease": "3s", "heartbeat": "500ms", "exit_timeout": 3, "catch_up": 0}
    made = Scheduler(SqliteBackend(OPTIONS["store"]), log=True, **timing)
    for number in range(4):
        made.every(f"good {number}", "1s", lambda: None)
    made.every("bad", "1s", bad)
    return made


scheduler = make_scheduler()
metrics(scheduler)


def of_all():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)


ASKED = {
    "/metrics": of_all,
    "/own": lambda: generate_latest(REGISTRY),
    "/state": lambda: json.dumps({"pid": os.getpid(), "state": scheduler.state}).encode(),
}


def app(environ, start_response):
    answer = ASKED[environ["PATH_INFO"]]()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
