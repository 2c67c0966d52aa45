"""How commands write what they have to say: JSON, text, or a table in colour on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._cli_source import NotDone, Refused
from ._cli_tables import Sheet
from ._commands_answers import NOT_DONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._commands_answers import Answer
    from ._runs import Run

C = TypeVar("C", bound="Callable[..., Any]")

OUTCOMES = {
    "success": "green",
    "failed": "bold red",
    "lost": "red",
    "missed": "yellow",
    "interrupted": "yellow",
    "skipped": "bright_black",
    "running": "cyan",
}
STYLES = {
    "status": OUTCOMES,
    "paused": {"yes": "bold yellow", "?": "yellow"},
}
LEVELS = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def json_option(command: C) -> C:
    """Add the option for output that programs read."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)


def zone_option(command: C) -> C:
    """Add the option for times in a zone."""
    text = "Show times in this zone as well, such as Europe/Athens."
    return click.option("--timezone", "--tz", "zone", metavar="ZONE", help=text)(command)


def end(answer: Answer, *, as_json: bool, levels: bool = False) -> None:
    """Write an answer, and end with its status; `levels`: each line begins with one."""
    if answer.error is not None:
        raise (NotDone if answer.status == NOT_DONE else Refused)(answer.error)
    if answer.note:
        say(answer.note)
    if as_json and answer.data is not None:
        click.echo(answer.json)
    elif answer.table is not None and answer.table.rows:
        sheet = Sheet(sys.stdout)
        sheet.table(answer.table.heads, answer.table.rows, STYLES)
        for line in answer.table.below:
            sheet.line(line)
    elif answer.text:
        sheet = Sheet(sys.stdout)
        for line in answer.text.split("\n"):
            word = line.partition(" ")[0] if levels else ""
            sheet.line(line, (0, len(word), LEVELS.get(word, "")))
    click.get_current_context().exit(answer.status)


def say(text: str) -> None:
    """Write a line to stderr that is no answer."""
    click.echo(f"{click.get_current_context().command_path}: {text}", err=True)


def write_run(sheet: Sheet, run: Run) -> None:
    """Write a record as a line, with its outcome in colour on a terminal."""
    from ._commands_rows import run_line

    text = run_line(run)
    at = text.find(f"Z: {run.status}") + len("Z: ")
    sheet.line(text, (at, at + len(run.status), OUTCOMES[run.status]))
