"""The commands that ask, and those that order: of this process, or of the whole fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

import click

from . import _commands
from ._cli_output import end, json_option, zone_option
from ._cli_source import with_source
from ._values import Status

if TYPE_CHECKING:
    from ._cli_source import Source

status_option = click.option(
    "--status", type=click.Choice(get_args(Status)), help="Only attempts with this status."
)


@click.command("jobs", short_help="list the jobs, their next slots, and what is paused")
@zone_option
@json_option
@with_source
def jobs(source: Source, *, zone: str | None, as_json: bool) -> None:
    """List the jobs with their next slots, and what is paused on the whole fleet."""
    end(_commands.jobs(source.app(), zone=zone), as_json=as_json)


@click.command("history", short_help="list the last runs, newest first")
@click.argument("job", required=False)
@click.option(
    *("-n", "--limit"),
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="How many attempts.",
)
@status_option
@zone_option
@json_option
@with_source
def history(
    source: Source,
    *,
    job: str | None,
    limit: int,
    status: str | None,
    zone: str | None,
    as_json: bool,
) -> None:
    """List the last attempts, of JOB or of all jobs, newest first."""
    known = cast("Status | None", status)
    answer = _commands.history(source.scheduler(), job, limit=limit, status=known, zone=zone)
    end(answer, as_json=as_json)


@click.command("explain", short_help="tell what became of a slot, and why")
@click.argument("job")
@click.argument("slot")
@zone_option
@json_option
@with_source
def explain(source: Source, *, job: str, slot: str, zone: str | None, as_json: bool) -> None:
    """Tell what became of SLOT of JOB: who ran it and how, or why nobody did.

    SLOT is milliseconds since 1970 UTC, or ISO text as tables show it. Without an offset that
    is UTC, or in --timezone. Why a slot has no record is told where the job is defined: with
    --app.
    """
    answer = _commands.explain(source.scheduler(), job, slot, zone=zone)
    if answer.error is not None and not source.names_app and "no record" in answer.error:
        answer = answer._replace(error=f"{answer.error}: give --app module:scheduler")
    end(answer, as_json=as_json)


@click.command("run-now", short_help="run a job now, in this process")
@click.argument("job")
@click.option("--data", metavar="JSON", help="What the handler finds as ctx.data.")
@json_option
@with_source
def run_now(source: Source, *, job: str, data: str | None, as_json: bool) -> None:
    """Run JOB now in this process, and wait until it has ended.

    The process takes part in nothing else: it claims no slot, and takes no run over. The exit
    status is 0 if the run was a success. With --json, what the handler prints goes to stderr.
    """
    scheduler = source.app()
    with _commands.prints_aside(aside=as_json):
        answer = _commands.run_now(scheduler, job, data_json=data)
    end(answer, as_json=as_json)


@click.command("trigger", short_help="ask the fleet to run a job once, now")
@click.argument("job")
@click.option("--data", metavar="JSON", help="What the handler finds as ctx.data.")
@json_option
@with_source
def trigger(source: Source, *, job: str, data: str | None, as_json: bool) -> None:
    """Ask the fleet to run JOB once: exactly one of the instances that have it does.

    They hear of it with the next claim that they make anyway, or, with control, within its
    period. With --app it is told when that is.
    """
    end(_commands.trigger(source.scheduler(), job, data_json=data), as_json=as_json)


@click.command("backfill", short_help="ask the fleet to run past slots of a job")
@click.argument("job")
@click.option("--from", "first", metavar="ISO", required=True, help="The first slot, or before it.")
@click.option("--to", "last", metavar="ISO", required=True, help="The last slot, or after it.")
@click.option(
    *("-n", "--limit"),
    type=click.IntRange(1, 1000),
    default=_commands.MOST_AT_ONCE,
    show_default=True,
    help="How many slots, at most; the oldest.",
)
@click.option(
    *("--timezone", "--tz", "zone"), metavar="ZONE", help="Where times without an offset are."
)
@json_option
@with_source
def backfill(
    source: Source,
    *,
    job: str,
    first: str,
    last: str,
    limit: int,
    zone: str | None,
    as_json: bool,
) -> None:
    """Ask the fleet to run the past slots of JOB once more, the oldest first, one at a time.

    Times are as for explain. It needs --app, since only the code knows which slots there are. The
    exit status is 1 if none was due in that time.
    """
    answer = _commands.backfill(source.app(), job, first=first, last=last, limit=limit, zone=zone)
    end(answer, as_json=as_json)


@click.command("pause", short_help="stop starts of a job, or of all, on every instance")
@click.argument("job", required=False)
@click.option("--for", "duration", metavar="DURATION", help="For how long, such as 90s or 1h30m.")
@json_option
@with_source
def pause(source: Source, *, job: str | None, duration: str | None, as_json: bool) -> None:
    """Stop starts of JOB, or of every job, on every instance.

    What falls due meanwhile is skipped and never caught up. A run that goes on goes on.
    """
    end(_commands.pause(source.scheduler(), job, duration=duration), as_json=as_json)


@click.command("resume", short_help="end a pause")
@click.argument("job", required=False)
@json_option
@with_source
def resume(source: Source, *, job: str | None, as_json: bool) -> None:
    """End the pause of JOB, or the one of every job."""
    end(_commands.resume(source.scheduler(), job), as_json=as_json)


@click.command("cancel", short_help="end the run of a slot, wherever it goes on")
@click.argument("job")
@click.argument("slot")
@zone_option
@json_option
@with_source
def cancel(source: Source, *, job: str, slot: str, zone: str | None, as_json: bool) -> None:
    """End the run of SLOT of JOB, wherever it goes on, or waits to go on.

    Its handler is told at the next heartbeat, and nobody continues the run. SLOT is as for
    explain. The exit status is 1 if no such run is open.
    """
    end(_commands.cancel(source.scheduler(), job, slot, zone=zone), as_json=as_json)
