"""The ledger: what really happened, one JSON object a line, in a file outside of every store.

All processes of a test append to it. Each line is one write, and bears the moment (`at`) on
CLOCK_MONOTONIC, which is one clock for all processes of a machine. Only processes die here, not
the machine, so nothing has to be forced to the disk.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

# A thread looks so often whether its process is kept from running, and tells when it was for
# longer than that: by a signal, by the machine, or by a call that holds the interpreter's lock.
LOOK_SECONDS = 0.05
STALL_SECONDS = 0.1


class Ledger:
    """Appends lines in the name of one process, from any thread."""

    def __init__(self, path: str | Path, who: str) -> None:
        self.path = Path(path)
        self._who = who
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, kind: str, **facts) -> float:
        """Write one line, about now unless `at` says when; return the moment."""
        line = {"kind": kind, "who": self._who, "at": time.monotonic(), **facts}
        os.write(self._file, f"{json.dumps(line)}\n".encode())
        return line["at"]

    def close(self) -> None:
        os.close(self._file)


def tell_stalls(ledger: Ledger, is_over: threading.Event) -> None:
    """Tell whenever this process could not run for a while, once it can again."""
    before = time.monotonic()
    while not is_over.wait(LOOK_SECONDS):
        now = time.monotonic()
        if now - before > LOOK_SECONDS + STALL_SECONDS:
            ledger.write("stalled", since=before)
        before = now


def read(path: str | Path) -> list[dict]:
    """Return all lines, in the order of their moments."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return sorted(map(json.loads, lines), key=lambda line: line["at"])


def shown(line: dict) -> str:
    """Return a line for people."""
    facts = (f"{k}={v}" for k, v in line.items() if k not in ("at", "kind", "who"))
    return f"{line['at']:.3f} {line['who']:8} {line['kind']:8} {' '.join(facts)}"
