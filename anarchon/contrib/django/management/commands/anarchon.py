"""``manage.py anarchon``: a worker in the foreground, and what the project's jobs do."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from signal import SIGINT
from typing import TYPE_CHECKING, Any, get_args

from django.core.management.base import BaseCommand, CommandError

from ....._values import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.core.management.base import CommandParser

    from ....._commands import Answer
    from ....._runs import Run
    from .....scheduler import Scheduler


class Command(BaseCommand):
    """``manage.py anarchon COMMAND``, as in `add_arguments`."""

    help = "Runs the jobs of this project in the foreground, and shows what they do."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the commands behind the command."""
        commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")

        def add(name: str, text: str, act: Callable[..., Answer]) -> CommandParser:
            one: CommandParser = commands.add_parser(name, help=text, description=text)
            one.set_defaults(act=act)
            one.add_argument(
                "--json", action="store_true", help="write JSON, and nothing else to stdout"
            )
            return one

        add("run", "be an instance until SIGTERM or Ctrl-C", self._run)
        add("jobs", "list the jobs with their next slots", _jobs)
        one = add("next", "list the next slots of a job", _next)
        one.add_argument("job")
        one.add_argument(
            "-n", "--count", type=_up_to_1000, default=5, help="how many slots; 5 by default"
        )
        one = add("history", "list runs, newest first", _history)
        one.add_argument("job", nargs="?", help="all jobs by default")
        one.add_argument(
            "-n", "--limit", type=_up_to_1000, default=20, help="how many runs; 20 by default"
        )
        one.add_argument("--status", choices=get_args(Status), help="only those")
        add("instances", "list the processes that share the store", _instances)
        one = add("run-now", "run a job now in this process", _run_now)
        one.add_argument("job")
        one.add_argument("--data", metavar="JSON", help="what the handler finds as ctx.data")
        slot = "milliseconds since 1970 UTC, or ISO text (UTC without an offset)"
        one = add("explain", "tell what became of a slot, and why", _explain)
        one.add_argument("job")
        one.add_argument("slot", help=slot)
        one = add("pause", "stop starts of a job, or of all, on every instance", _pause)
        one.add_argument("job", nargs="?", help="all jobs by default")
        one.add_argument("--for", dest="duration", help="for how long, such as 1h30m")
        one = add("resume", "end a pause", _resume)
        one.add_argument("job", nargs="?", help="the pause of all jobs by default")
        one = add("cancel", "end the run of a slot, wherever it goes on", _cancel)
        one.add_argument("job")
        one.add_argument("slot", help=slot)
        one = add("trigger", "ask the fleet to run a job once, now", _trigger)
        one.add_argument("job")
        one.add_argument("--data", metavar="JSON", help="what the handler finds as ctx.data")
        one = add("backfill", "ask the fleet to run past slots of a job", _backfill)
        one.add_argument("job")
        one.add_argument("--from", dest="first", required=True, help=f"the first one: {slot}")
        one.add_argument("--to", dest="last", required=True, help="the last one, likewise")
        one.add_argument(
            "-n", "--limit", type=_up_to_1000, default=100, help="how many slots; 100 by default"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked, print it, and end with its status."""
        from ....._commands import prints_aside
        from ..._scheduler import project_scheduler

        del args
        # `self.stdout` has hold of the stream already.
        try:
            with prints_aside(aside=options["json"]):
                answer: Answer = options["act"](project_scheduler(), options)
        except KeyboardInterrupt:  # of which Django would show the traceback
            raise SystemExit(128 + SIGINT) from None
        if answer.error is not None:
            raise CommandError(answer.error, returncode=answer.status)
        if answer.note:
            self.stderr.write(answer.note)
        text = answer.json if options["json"] and answer.data is not None else answer.text
        if text:
            self.stdout.write(text)
        if answer.status:
            raise SystemExit(answer.status)

    def _run(self, scheduler: Scheduler, options: dict[str, Any]) -> Answer:
        from ....._commands import run

        tell = self._write_run if options["json"] else None
        return run(scheduler, say=self.stderr.write, tell=tell)

    def _write_run(self, run: Run) -> None:
        self.stdout.write(json.dumps(run.to_dict()))
        self.stdout.flush()  # into a pipe as well, where somebody waits for it


def _up_to_1000(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 1000:
        return int(text)
    raise ArgumentTypeError(f"{text!r} is no number from 1 to 1000")


def _jobs(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import jobs

    del options
    return jobs(scheduler)


def _next(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import next_slots

    return next_slots(scheduler, options["job"], options["count"])


def _history(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import history

    limit, status = options["limit"], options["status"]
    return history(scheduler, options["job"], limit=limit, status=status)


def _instances(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import instances

    del options
    return instances(scheduler)


def _run_now(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import run_now

    return run_now(scheduler, options["job"], data_json=options["data"])


def _explain(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import explain

    return explain(scheduler, options["job"], options["slot"])


def _pause(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import pause

    return pause(scheduler, options["job"], duration=options["duration"])


def _resume(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import resume

    return resume(scheduler, options["job"])


def _cancel(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import cancel

    return cancel(scheduler, options["job"], options["slot"])


def _trigger(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import trigger

    return trigger(scheduler, options["job"], data_json=options["data"])


def _backfill(scheduler: Scheduler, options: dict[str, Any]) -> Answer:
    from ....._commands import backfill

    first, last, limit = options["first"], options["last"], options["limit"]
    return backfill(scheduler, options["job"], first=first, last=last, limit=limit)
