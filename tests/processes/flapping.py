"""A program that starts and stops its scheduler again and again, around slots."""

from __future__ import annotations

import time

from tests.processes.instance import make_scheduler, say


def flap(options):
    """Stop at an offset to a slot of half a second that grows from -40 to +40 ms."""
    scheduler = make_scheduler(options)
    rounds = options["rounds"]
    for number in range(rounds):
        scheduler.start()
        offset = 0.08 * number / (rounds - 1) - 0.04
        time.sleep((offset - time.time()) % 0.5)
        scheduler.stop()
    say("left", state=scheduler.state)
