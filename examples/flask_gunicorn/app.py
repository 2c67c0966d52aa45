"""A Flask app with two jobs, for any number of gunicorn workers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from flask import Flask

from anarchon.contrib.flask import Anarchon
from anarchon.contrib.wsgi import with_health
from anarchon.web import dashboard, mounted

if TYPE_CHECKING:
    from anarchon import Context

app = Flask(__name__)
app.config.update(
    ANARCHON_BACKEND="sqlite:///jobs.db",
    # A short lease, so that there is little to wait for when a worker is killed.
    ANARCHON_OPTIONS={"lease": "6s", "heartbeat": "1s", "log": True},
    # For `flask run`. Under gunicorn, gunicorn.conf.py starts the scheduler.
    ANARCHON_AUTOSTART=True,
)
app.config.from_prefixed_env()  # FLASK_ANARCHON_BACKEND=redis://..., for several machines
jobs = Anarchon(app)
app.wsgi_app = with_health(app.wsgi_app, jobs.scheduler)


@jobs.every("sync", "1s", description="runs once each second, in one of the workers")
def sync() -> None:
    """Do something short."""
    time.sleep(0.05)


@jobs.every("report", "1m", description="takes a while, and goes on elsewhere after a reload")
def report(ctx: Context) -> None:
    """Work for some seconds, and give up when this worker is to end."""
    ctx.signal.sleep("20s")


@app.get("/")
def index() -> dict[str, Any]:
    """Say who answers, and what ran last."""
    scheduler = jobs.scheduler
    return {
        "pid": os.getpid(),
        "state": scheduler.state,
        "runs": [str(run) for run in scheduler.history(limit=10)],
    }


# For everybody to look at; see the page about the dashboard for who may do what.
app.wsgi_app = mounted(app.wsgi_app, "/jobs", dashboard(jobs.scheduler))  # type: ignore[method-assign]
