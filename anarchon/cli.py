"""The command line: ``anarchon demo`` on the base install, all else with the extra ``cli``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from signal import SIGINT
from typing import TYPE_CHECKING

from . import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY = "Scheduled jobs inside the processes of a service."
DEMO_SUMMARY = "watch three processes share jobs, hand one over and take one over"
_INSTALL = "python -m pip install 'anarchon[cli]'"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of what works on the base install."""
    from . import demo

    parser = argparse.ArgumentParser(
        prog="anarchon",
        description=SUMMARY,
        epilog=f'The extra "cli" brings more commands, such as "next" (the next slots of a'
        f" schedule): {_INSTALL}",
    )
    parser.add_argument("--version", action="version", version=f"anarchon {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("demo", help=DEMO_SUMMARY, description=demo.__doc__)
    demo.add_options(one)
    one.set_defaults(run=demo.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, or raise `SystemExit` with it.

    Args:
        arguments: The words after the program's name; by default those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["demo"]:
        return run_base(words)
    try:
        return _with_click(words) if _has_click() else _without_click(words)
    except KeyboardInterrupt:
        return 128 + SIGINT


def run_base(words: Sequence[str]) -> int:
    """Run a command of the base install and return its exit status."""
    options = make_parser().parse_args(words)
    status: int = options.run(options)
    return status


def _has_click() -> bool:
    try:
        for name in ("click", "rich"):
            import_module(name)
    except ImportError:
        return False
    return True


def _with_click(words: Sequence[str]) -> int:
    from ._cli_group import run

    return run(words)


def _without_click(words: Sequence[str]) -> int:
    if words and not words[0].startswith("-"):
        print(
            f"anarchon {words[0]}: the commands other than demo need more packages;"
            f" install them: {_INSTALL}",
            file=sys.stderr,
        )
        return 2
    return run_base(words)
