"""The command line, run in this process: with any version of click, and without a terminal."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

from anarchon import cli


class Result(NamedTuple):
    """What a command line said, and its exit status."""

    status: int
    out: str
    err: str


def run(*words: str) -> Result:
    """Run a command line; any exception but the end of a program goes on to the test."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(list(words))
        except SystemExit as end:
            status = end.code
    return Result(status, out.getvalue(), err.getvalue())
