"""Schedulers that a test doesn't have to stop, and programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.schedulers import maker

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def make():
    """Make schedulers that are stopped at the end of the test."""
    with maker(lease=3) as make_one:
        yield make_one


@pytest.fixture
def spawn(tmp_path):
    """Start programs in an empty folder; those that are left are killed at the end."""
    started = []

    def start(program, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
