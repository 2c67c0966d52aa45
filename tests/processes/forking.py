"""Programs that fork while their scheduler runs."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime

from anarchon import NotRunning
from tests.processes.instance import heard, make_scheduler, on_another_thread, say, serve_on

LONGEST_CHILD = 15


def fork_once(options):
    """Fork when told to, wait for the child, and serve on."""
    scheduler = make_scheduler(options)
    scheduler.start()
    say("ready", instance=scheduler.instance_id)
    heard()
    body = CHILDREN[options["child"]]
    status = WAYS[options["way"]](lambda: body(scheduler))
    say("child ended", status=status)
    serve_on(scheduler)


def fork_often(options):
    """Fork again and again, while other threads log, ask and run jobs."""
    scheduler = make_scheduler(options)
    scheduler.start()
    heard()
    over = []

    def ask():
        while not over:
            scheduler.history("work")
            scheduler.run_now("ping")

    askers = [on_another_thread(ask) for _ in range(2)]
    pause = random.Random(7)
    for _ in range(options["forks"]):
        time.sleep(pause.uniform(0, 0.01))  # anywhere in what the others do
        status = by_exit(lambda: look_round(scheduler))
        say("child ended", status=status)
    over.append(True)
    for asker in askers:
        asker.join()
    serve_on(scheduler)


# --- ways to fork; each returns the child's exit status ---


def by_exit(body):
    """Fork plainly; the child leaves without any hook."""
    pid = os.fork()
    if not pid:
        signal.alarm(LONGEST_CHILD)
        body()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_end(body):
    """Fork plainly; the child ends as a program does, with all hooks."""
    pid = os.fork()
    if not pid:
        signal.alarm(LONGEST_CHILD)
        body()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_multiprocessing(body):
    child = multiprocessing.get_context("fork").Process(target=body)
    child.start()
    child.join(LONGEST_CHILD)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode


WAYS = {"exit": by_exit, "end": by_end, "multiprocessing": by_multiprocessing}


# --- what children do ---


def look_round(scheduler):
    """Do everything that needs no running scheduler."""
    state, health = scheduler.state, scheduler.health()
    try:
        scheduler.run_now("ping")
        refused = None
    except NotRunning as error:
        refused = str(error)
    scheduler.stop()
    scheduler.every("childs", "1h", lambda: None, replace=True)
    say(
        "child",
        state=state,
        health=health.state,
        running=health.running,
        refused=refused,
        read=[run.status for run in scheduler.history("work")],
        waited=scheduler.wait(0.01),
        instance=scheduler.instance_id,
    )


def start_again(scheduler):
    """Be an instance of its own, then stop."""
    look_round(scheduler)
    scheduler.remove("work")
    scheduler.start()
    run = scheduler.run_now("ping")
    say("child ran", state=scheduler.state, instance=scheduler.instance_id, by=run.instance_id)
    scheduler.stop()


def leave_running(scheduler):
    """Be an instance of its own, and end in the middle of a run."""
    scheduler.remove("work")
    begun = []

    def childs(ctx):
        begun.append(True)
        ctx.signal.sleep(60)

    scheduler.once("childs", datetime.now(UTC).replace(microsecond=0), childs)
    scheduler.start()
    while not begun:
        time.sleep(0.005)
    say("child leaves", state=scheduler.state)


CHILDREN = {child.__name__: child for child in (look_round, start_again, leave_running)}
