"""Where every process of these tests starts: `child.py MODULE:FUNCTION OPTIONS`.

Started with `-P`, so nothing of the checkout comes before an installed wheel; the helpers
of the tests go last.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

LONGEST_SECONDS = 90 + int(os.environ.get("ANARCHON_TEST_SLOTS", "0"))
WALL_CLOCK = "ANARCHON_TEST_WALL_CLOCK"


def follow(path):
    """Have the wall clock of this process ahead by as many seconds as a file says."""
    plain = time.time_ns
    time.time_ns = lambda: plain() + round(float(path.read_text()) * 1_000_000_000)
    time.time = lambda: time.time_ns() / 1_000_000_000


if __name__ == "__main__":
    if WALL_CLOCK in os.environ:
        follow(Path(os.environ[WALL_CLOCK]))  # before anybody looks at it
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    # A process that hangs shows where, and ends, even when its test is gone. Not by a thread:
    # faulthandler's own would be missing in a forked child, and waited for there for ever.
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm(LONGEST_SECONDS)
    module, _, name = sys.argv[1].partition(":")
    where = f"tests.{module}" if "." in module else f"tests.processes.{module}"
    program = getattr(importlib.import_module(where), name)
    program(json.loads(sys.argv[2]))
