"""The command line: ``anarchon demo``, on the base install."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    from . import demo

    parser = argparse.ArgumentParser(
        prog="anarchon", description="Scheduled jobs inside the processes of a service."
    )
    parser.add_argument("--version", action="version", version=f"anarchon {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    summary = "watch three processes share jobs, hand one over and take one over"
    one = commands.add_parser("demo", help=summary, description=demo.__doc__)
    demo.add_options(one)
    one.set_defaults(run=demo.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: The words after the program's name; by default those of this process.
    """
    options = make_parser().parse_args(arguments)
    status: int = options.run(options)
    return status
