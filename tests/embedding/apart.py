"""A command that goes on, with what it writes to stdout apart from all else."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE = 30.0  # seconds


def said_apart(folder: Path, environment: Mapping[str, str], *words: str) -> tuple[str, str]:
    """Run Python in a folder until a first line is there, and SIGTERM has ended it.

    Its stdout is a pipe with a buffer, as programs that read it find it. Returned are what it
    wrote there, and its errors.
    """
    errors = folder / "errors"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**environment, "PYTHONUNBUFFERED": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    too_long = threading.Timer(PATIENCE, process.kill)
    too_long.start()
    try:
        with process:
            first = process.stdout.readline()
            process.terminate()
            rest = process.stdout.read()
            code = process.wait()
    finally:
        too_long.cancel()
    text = errors.read_text()
    assert code in (0, -signal.SIGTERM), f"{code}\n{first}{rest}{text}"
    return first + rest, text
