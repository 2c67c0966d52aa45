"""Programs that end while their scheduler runs, each in its way, without calling `stop`."""

from __future__ import annotations

import signal
import sys
import threading
import time

from tests.processes.instance import heard, make_scheduler, say


def leave(options):
    """Start, wait for the test, and end."""
    scheduler = make_scheduler(options)
    scheduler.start(retry=options.get("retry", False))
    WAYS[options["way"]](scheduler)


def by_return(scheduler):
    heard()
    say("leaves", state=scheduler.state)


def by_sys_exit(scheduler):
    by_return(scheduler)
    sys.exit(3)


def by_exception(scheduler):
    by_return(scheduler)
    raise RuntimeError("raised by the test")


def by_stop(scheduler):
    by_return(scheduler)
    scheduler.stop(timeout=1)
    say("stopped", state=scheduler.state)


def by_ctrl_c(scheduler):
    say("ready")
    time.sleep(60)


def by_handler(scheduler):
    """End by a handler of SIGTERM that the program brings itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
    by_ctrl_c(scheduler)


def by_default(scheduler):
    by_ctrl_c(scheduler)


def by_return_with_other_threads(scheduler):
    """The interpreter still waits for a thread of the program's own."""
    heard()
    say("leaves", state=scheduler.state)
    threading.Thread(target=time.sleep, args=(0.3,), name="test-thread").start()


WAYS = {
    way.__name__: way
    for way in (
        by_return,
        by_stop,
        by_sys_exit,
        by_exception,
        by_ctrl_c,
        by_handler,
        by_default,
        by_return_with_other_threads,
    )
}
