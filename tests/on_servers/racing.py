"""Many processes that claim the same runs at the same moment, straight at the backend.

They are forked from one that has imported everything, so that fifty cost no more than a
few. Each says what it won, and whether anything was raised.
"""

from __future__ import annotations

import importlib
import os
import random
import time
from contextlib import suppress

from anarchon._values import Limits, Owner, Pace, Result, RunKey, Terms, Wish, Won
from tests.processes.instance import say
from tests.processes.places import backend_at

LIMITS = Limits(connect=30.0, quick=20.0, call=20.0)  # two processors for fifty processes
TERMS = Terms(lease_ms=60_000, heartbeat_ms=20_000, budget=3, skip_overlap=True, catch_up_ms=0)


def race(options):
    """Fork the racers, and wait for them."""
    driver = "psycopg" if options["database"].startswith("postgres") else "redis"
    importlib.import_module(driver)  # so that it is shared, and not loaded fifty times
    backend_at(options["database"])
    begin = time.monotonic() + 0.5
    children = [fork(options, number, begin) for number in range(options["count"])]
    for pid in children:
        os.waitpid(pid, 0)
    say("over")


def fork(options, number, begin):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run(options, number, begin)
        code = 0
    except BaseException as error:
        say("raised", text=repr(error)[:1500], cause=repr(error.__cause__)[:500])
    finally:
        with suppress(BaseException):
            os._exit(code)


def run(options, number, begin):
    """Open the store with all others at once; then race for each tick."""
    backend = backend_at(options["database"], namespace=options["namespace"])
    owner = Owner(f"racer-{number}", f"racer-{number}")
    order = random.Random(number)
    sleep_until(begin)
    backend.open(LIMITS)
    backend.prepare([])
    for tick in range(options["ticks"]):
        sleep_until(begin + options["opening"] + tick * options["pause"])
        # Jobs of its own: whoever is late for a tick would else find newer slots.
        keys = [RunKey(f"{tick} {job}", options["slot_ms"]) for job in range(options["jobs"])]
        order.shuffle(keys)
        # Half of them take all they can get, the others a few.
        race_once(backend, owner, keys, wins=3 if number % 2 else options["jobs"])
    backend.close()
    say("done", number=number)


def race_once(backend, owner, keys, wins):
    """Claim these runs, finish what was won, and say what that was."""
    wishes = [Wish(key, 1, "scheduled", TERMS) for key in keys]
    pace = Pace(time.monotonic())
    answers = backend.claim(wishes, owner=owner, wins=wins, pace=pace).answers
    won = [answer.key for answer in answers if isinstance(answer, Won)]
    results = [Result(key, 1, "success", "scheduled", key.slot_ms, 1) for key in won]
    settled = backend.finish(results, owner=owner).answers if won else ()
    kinds = sorted({type(one).__name__ for one in settled})
    say("won", jobs=[key.job for key in won], settled=kinds)


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))
