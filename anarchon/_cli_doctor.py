"""The command ``anarchon doctor``: what is wrong with a store, and with where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._cli_output import end, json_option
from ._cli_source import with_source

if TYPE_CHECKING:
    from ._cli_source import Source


@click.command("doctor", short_help="say what is wrong with the store, and how to mend it")
@json_option
@with_source
def doctor(source: Source, *, as_json: bool) -> None:
    """Look at the store, at what it says of its settings, and at the scheduler of --app.

    Each finding is one line, with what to do about it. Nothing is created and no job is run.
    The exit status is 1 if something is wrong.
    """
    from ._commands_doctor import examine

    scheduler = source.scheduler()
    end(examine(scheduler, called=source.started), as_json=as_json, levels=True)
