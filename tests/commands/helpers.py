"""Processes of the tests of commands."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import anarchon

if TYPE_CHECKING:
    import subprocess


def environment(**more: str) -> dict[str, str]:
    """Let subprocesses import what this process imports, wheel or checkout."""
    return {**os.environ, "PYTHONPATH": str(Path(anarchon.__file__).parent.parent), **more}


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]):
    """See to it that a process has ended, and its pipes are closed."""
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        process.wait(10)


def first_success(process: subprocess.Popen[str]) -> dict:
    """Return the first run that is told of as a success; beside a busy machine some are not."""
    for line in iter(process.stdout.readline, ""):
        run = json.loads(line)
        if run["status"] == "success":
            return run
    raise AssertionError("it ended without a success")
