"""The application that the servers of these tests load; what it is told comes by one variable.

Everything that happens is a line of JSON in one file, whichever process it happens in, with
the moment (`at`) on the monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

from anarchon import Scheduler, SqliteBackend

OPTIONS = json.loads(os.environ["EMBEDDED"])


def say(kind, **facts):
    """Write one line, in one step."""
    line = json.dumps({"kind": kind, "at": time.monotonic(), "pid": os.getpid(), **facts})
    fd = os.open(OPTIONS["events"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def work(ctx):
    """Run for as long as the job's data says; when told to stop, obey or go on."""
    say("begin", job=ctx.name, slot=ctx.slot, attempt=ctx.attempt, reason=ctx.reason)
    until = time.monotonic() + ctx.data["seconds"]
    told = False
    while time.monotonic() < until:
        if ctx.signal.wait(0.05) and not told:
            told = True
            say("aborted", job=ctx.name, attempt=ctx.attempt, reason=ctx.signal.reason)
            if not ctx.data.get("stubborn"):
                time.sleep(ctx.data.get("tidies", 0))
                ctx.signal.raise_if_aborted()
        if told:
            time.sleep(0.05)  # the signal no longer waits
    say("end", job=ctx.name, slot=ctx.slot, attempt=ctx.attempt)


def make_scheduler():
    made = Scheduler(
        SqliteBackend(OPTIONS["store"]),
        lease=OPTIONS.get("lease", "3s"),
        heartbeat=OPTIONS.get("heartbeat", "500ms"),
        exit_timeout=OPTIONS.get("exit_timeout", 3),
        workers=OPTIONS.get("workers", 10),
        log=True,
    )
    for job in OPTIONS.get("jobs", []):
        options = {"data": job, **job.get("options", {})}
        if "every" in job:
            made.every(job["name"], job["every"], work, **options)
        else:
            made.once(job["name"], job["once"], work, **options)
    return made


def make_other():
    """Bear another scheduler, which has no jobs and another store."""


make_other.scheduler = Scheduler(SqliteBackend(f"{OPTIONS['store']}-other"), log=True)
scheduler = make_scheduler()
say("import", main=threading.current_thread() is threading.main_thread())


def state(query):
    return json.dumps(
        {
            "pid": os.getpid(),
            "state": scheduler.state,
            "other": make_other.scheduler.state,
            "instance": scheduler.instance_id,
            "late": scheduler.health().heartbeat_late,
            "threads": sorted(t.name for t in threading.enumerate()),
        }
    )


def slow(query):
    """Wait; the server that is asked to end finishes this request first."""
    say("slow")
    time.sleep(float(query["seconds"][0]))
    return "waited"


def burn(query):
    """Compute, and let nothing else of this thread run meanwhile."""
    say("burn")
    until = time.monotonic() + float(query["seconds"][0])
    while time.monotonic() < until:
        sum(range(1000))
    say("burnt")
    return "computed"


ASKED = {"/state": state, "/slow": slow, "/burn": burn}


def app(environ, start_response):
    answer = ASKED[environ["PATH_INFO"]](parse_qs(environ["QUERY_STRING"])).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


def attach_between():
    """Attach when there are hooks already, and add one by uwsgidecorators afterwards."""
    import uwsgi

    from anarchon.contrib.uwsgi import attach

    uwsgi.post_fork_hook = lambda: say("note", text="fork before")
    uwsgi.atexit = lambda: say("note", text="exit before")
    attach(scheduler)
    from uwsgidecorators import postfork

    postfork(lambda: say("note", text="fork after"))


def at_import():
    """What a program does with its scheduler while it is imported."""
    match OPTIONS.get("at_import"):
        case "start":
            scheduler.start()
        case "patient":
            scheduler.start(retry=True)
        case "install":
            say("installed", said=scheduler.install_signal_handlers())
            scheduler.start(retry=True)
        case "attach":
            from anarchon.contrib.uwsgi import attach

            said = attach(scheduler)
            say("attached", said=said, state=scheduler.state)
        case "attach between":
            attach_between()
        case "refused":
            try:
                scheduler.start()
            except ValueError as error:
                say("refused", text=str(error), type=type(error).__name__)


at_import()

if __name__ == "__main__":
    import waitress

    Path(OPTIONS["ready"]).touch()
    waitress.serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=4)
