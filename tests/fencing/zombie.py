"""A service whose handler pays in a transaction, and waits in the middle of it when told to."""

from __future__ import annotations

import os
import signal
import sqlite3

import psycopg

from anarchon import Aborted
from tests.processes import instance


def connect(url):
    if "://" in url:
        return psycopg.connect(url, prepare_threshold=None)
    return sqlite3.connect(url, timeout=5)


def pay(ctx, options):
    """Pay once; attempt 1 waits for the test before what is asked of the store."""
    url, way, early = options["database"], options["way"], options["early"]
    instance.begin(ctx)
    connection = connect(url)
    try:
        if "://" in url:  # on SQLite it would keep everybody out from here on
            connection.execute("INSERT INTO paid VALUES ('job', 0)")
        if early:
            ask(ctx, connection, way)
        instance.say("inside", attempt=ctx.attempt)
        if ctx.attempt == 1 and not options.get("die"):
            instance.heard()
        if "://" not in url:
            connection.execute("INSERT INTO paid VALUES ('job', 0)")
        if not early:
            ask(ctx, connection, way)
        connection.commit()
        if options.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        instance.say("committed", attempt=ctx.attempt)
    except Aborted as aborted:
        instance.say("aborted", attempt=ctx.attempt, reason=aborted.reason)
        raise
    finally:
        connection.close()


def ask(ctx, connection, way):
    if way != "nothing":
        getattr(ctx, way)(connection)


def serve(options):
    instance.HANDLERS["pay"] = lambda ctx, _: pay(ctx, options)
    instance.serve(options)
