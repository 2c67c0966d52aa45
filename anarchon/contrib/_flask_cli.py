"""``flask anarchon ...``: the commands, as Flask's command line offers them."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, TextIO, cast

import click
from flask import current_app
from flask.cli import AppGroup

from .. import _commands

if TYPE_CHECKING:
    from .._commands import Answer
    from .._runs import Run
    from .._values import Status
    from ..scheduler import Scheduler

group = AppGroup("anarchon", help="Scheduled jobs: list them, run one by hand, run them all.")

_as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_up_to_1000 = click.IntRange(1, 1000)


def _scheduler() -> Scheduler:
    return cast("Scheduler", current_app.extensions["anarchon"])


def _end(answer: Answer, *, as_json: bool) -> None:
    """Write an answer, and end with its status."""
    if answer.note:
        click.echo(f"anarchon: {answer.note}", err=True)
    if answer.error is not None:
        click.echo(f"anarchon: {answer.error}", err=True)
    elif as_json and answer.data is not None:
        click.echo(answer.json)
    elif answer.text:
        click.echo(answer.text)
    click.get_current_context().exit(answer.status)


@group.command("jobs")
@_as_json
def _jobs(*, as_json: bool) -> None:
    """List the jobs and their next slots."""
    _end(_commands.jobs(_scheduler()), as_json=as_json)


@group.command("next")
@click.argument("job")
@click.option(
    "-n", "--count", type=_up_to_1000, default=5, show_default=True, help="How many slots."
)
@_as_json
def _next(*, job: str, count: int, as_json: bool) -> None:
    """List the next slots of JOB."""
    _end(_commands.next_slots(_scheduler(), job, count), as_json=as_json)


@group.command("history")
@click.argument("job", required=False)
@click.option(
    "-n", "--limit", type=_up_to_1000, default=20, show_default=True, help="How many runs."
)
@click.option("--status", help="Only runs with this status, such as failed.")
@_as_json
def _history(*, job: str | None, limit: int, status: str | None, as_json: bool) -> None:
    """List the last runs, of JOB or of all jobs, newest first."""
    known = cast("Status | None", status)  # which is checked where it is used
    answer = _commands.history(_scheduler(), job, limit=limit, status=known)
    _end(answer, as_json=as_json)


@group.command("instances")
@_as_json
def _instances(*, as_json: bool) -> None:
    """List the processes that share the store, and what they disagree about."""
    _end(_commands.instances(_scheduler()), as_json=as_json)


@group.command("explain")
@click.argument("job")
@click.argument("slot")
@_as_json
def _explain(*, job: str, slot: str, as_json: bool) -> None:
    """Tell what became of SLOT of JOB, and why.

    SLOT is milliseconds since 1970 UTC, or ISO text, which is UTC without an offset.
    """
    _end(_commands.explain(_scheduler(), job, slot), as_json=as_json)


@group.command("pause")
@click.argument("job", required=False)
@click.option("--for", "duration", metavar="DURATION", help="For how long, such as 1h30m.")
@_as_json
def _pause(*, job: str | None, duration: str | None, as_json: bool) -> None:
    """Stop starts of JOB, or of all jobs, on every instance."""
    _end(_commands.pause(_scheduler(), job, duration=duration), as_json=as_json)


@group.command("resume")
@click.argument("job", required=False)
@_as_json
def _resume(*, job: str | None, as_json: bool) -> None:
    """End the pause of JOB, or the one of all jobs."""
    _end(_commands.resume(_scheduler(), job), as_json=as_json)


@group.command("cancel")
@click.argument("job")
@click.argument("slot")
@_as_json
def _cancel(*, job: str, slot: str, as_json: bool) -> None:
    """End the run of SLOT of JOB, wherever it goes on.

    SLOT is as for explain. The exit status is 1 if no such run is open.
    """
    _end(_commands.cancel(_scheduler(), job, slot), as_json=as_json)


@group.command("trigger")
@click.argument("job")
@click.option("--data", metavar="JSON", help="What the job finds as ctx.data.")
@_as_json
def _trigger(*, job: str, data: str | None, as_json: bool) -> None:
    """Ask the fleet to run JOB once: exactly one of its instances does."""
    _end(_commands.trigger(_scheduler(), job, data_json=data), as_json=as_json)


@group.command("backfill")
@click.argument("job")
@click.option("--from", "first", metavar="ISO", required=True, help="The first slot, or before it.")
@click.option("--to", "last", metavar="ISO", required=True, help="The last slot, or after it.")
@click.option(
    *("-n", "--limit"),
    type=_up_to_1000,
    default=_commands.MOST_AT_ONCE,
    show_default=True,
    help="How many slots, at most.",
)
@_as_json
def _backfill(*, job: str, first: str, last: str, limit: int, as_json: bool) -> None:
    """Ask the fleet to run past slots of JOB, the oldest first, one at a time.

    Times are as for explain. The exit status is 1 if no slot was due between them.
    """
    answer = _commands.backfill(_scheduler(), job, first=first, last=last, limit=limit)
    _end(answer, as_json=as_json)


@group.command("run-now")
@click.argument("job")
@click.option("--data", metavar="JSON", help="What the job finds as ctx.data.")
@_as_json
def _run_now(*, job: str, data: str | None, as_json: bool) -> None:
    """Run JOB now, in this process, and wait until it has ended.

    The exit status is 0 if the run was a success. With --json, what the job prints goes to
    stderr.
    """
    with _commands.prints_aside(aside=as_json):
        answer = _commands.run_now(_scheduler(), job, data_json=data)
    _end(answer, as_json=as_json)


@group.command("run")
@_as_json
def _run(*, as_json: bool) -> None:
    """Run the jobs in this process, until Ctrl-C or SIGTERM.

    With --json, each run that ends here is written as one line, and what the jobs print goes
    to stderr.
    """
    tell = partial(_write_run, sys.stdout) if as_json else None
    with _commands.prints_aside(aside=as_json):
        answer = _commands.run(_scheduler(), say=lambda text: click.echo(text, err=True), tell=tell)
    _end(answer, as_json=as_json)


def _write_run(file: TextIO, run: Run) -> None:
    click.echo(json.dumps(run.to_dict()), file=file)
