"""The commands that need click, and what they have in common."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from signal import SIGINT
from typing import TYPE_CHECKING, NoReturn

import click

from . import __version__, cli
from ._cli_doctor import doctor
from ._cli_jobs import (
    backfill,
    cancel,
    explain,
    history,
    jobs,
    pause,
    resume,
    run_now,
    trigger,
)
from ._cli_live import be_instance, export, tail
from ._cli_next import next_slots
from ._cli_schema import schema
from ._cli_top import instances, top

if TYPE_CHECKING:
    from collections.abc import Sequence


class Group(click.Group):
    """Commands; the nearest name is suggested for one that isn't there."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is asked for."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"{ctx.command_path} --help lists them"
            ctx.fail(f"there is no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Group,
    help=cli.SUMMARY,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="anarchon", message="%(prog)s %(version)s")
def commands() -> None:
    """Hold the commands."""


for one in (be_instance, jobs, next_slots, history, explain, run_now, pause, resume, cancel):
    commands.add_command(one)
for one in (trigger, backfill, tail, export, instances, top, doctor, schema):
    commands.add_command(one)


@commands.command(
    "demo",
    short_help=cli.DEMO_SUMMARY,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def demo(ctx: click.Context, words: tuple[str, ...]) -> NoReturn:
    """Run the demo, which reads its options itself."""
    ctx.exit(cli.run_base(["demo", *words]))


def run(words: Sequence[str]) -> NoReturn:
    """Run a command and end with its exit status, quietly after Ctrl-C or a broken pipe."""
    try:
        status = _status(words)
        sys.stdout.flush()
    except click.Abort:  # what click makes of Ctrl-C
        status = 128 + SIGINT
    except OSError as error:
        # Whoever read our output is gone, or the disk is full; what the interpreter would
        # flush goes nowhere.
        if not isinstance(error, BrokenPipeError):
            click.echo(f"anarchon: {error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _status(words: Sequence[str]) -> int:
    try:
        result = commands.main(list(words), prog_name="anarchon", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return result if isinstance(result, int) else 0
