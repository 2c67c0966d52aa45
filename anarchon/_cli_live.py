"""The commands that go on: run, tail, export."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TextIO, cast

import click

from . import _commands
from ._cli_jobs import status_option
from ._cli_output import end, json_option, say, write_run
from ._cli_source import Refused, with_source
from ._cli_tables import Sheet
from ._commands_answers import in_one_line
from ._durations import parse_ms
from .errors import ConfigurationError

if TYPE_CHECKING:
    from ._cli_source import Source
    from ._runs import Run
    from ._values import Status


@click.command("run", short_help="be an instance until SIGTERM or Ctrl-C")
@json_option
@with_source
def be_instance(source: Source, *, as_json: bool) -> None:
    """Run the jobs in this process, until Ctrl-C or SIGTERM.

    A store that is down is waited for. With --json, each run that ends here is written as one
    line, and what the handlers print goes to stderr.
    """
    scheduler = source.app()
    tell = partial(_write_json, sys.stdout) if as_json else None
    with _commands.prints_aside(aside=as_json):
        answer = _commands.run(scheduler, say=say, tell=tell)
    end(answer, as_json=as_json)


@click.command("tail", short_help="show records as they come")
@click.argument("job", required=False)
@click.option(
    *("-n", "--last"),
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="How many records that are there already come first.",
)
@click.option(
    "--interval", default="1s", show_default=True, metavar="DURATION", help="How often to look."
)
@status_option
@json_option
@with_source
def tail(
    source: Source,
    *,
    job: str | None,
    last: int,
    interval: str,
    status: str | None,
    as_json: bool,
) -> None:
    """Show records of JOB, or of all jobs, as they come, until Ctrl-C.

    A run has a line when it starts and one when it ends, or only the latter if both fall
    between two looks. A store that is down is waited for.
    """
    from ._commands_history import tail as follow

    try:
        ms = parse_ms(interval, what="--interval", minimum_ms=100, allow_zero=False)
    except ConfigurationError as error:
        raise Refused(in_one_line(error)) from error
    tell = partial(_write_json, sys.stdout) if as_json else partial(write_run, Sheet(sys.stdout))
    answer = follow(
        source.scheduler(),
        tell,
        job,
        say=say,
        rest=partial(time.sleep, ms / 1000),
        last=last,
        status=cast("Status | None", status),
    )
    end(answer, as_json=as_json)


@click.command("export", short_help="write the whole history as lines of JSON")
@click.argument("job", required=False)
@status_option
@with_source
def export(source: Source, *, job: str | None, status: str | None) -> None:
    """Write every record, of JOB or of all jobs, newest first, as one line of JSON each."""
    from ._commands_history import export as write_all

    known = cast("Status | None", status)
    answer = write_all(source.scheduler(), click.echo, job, status=known)
    end(answer, as_json=True)


def _write_json(file: TextIO, run: Run) -> None:
    click.echo(json.dumps(run.to_dict()), file=file)
