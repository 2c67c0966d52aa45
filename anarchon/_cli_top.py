"""The commands about the fleet as it is now: ``instances`` once, ``top`` as long as one looks."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from select import select
from typing import TYPE_CHECKING

import click

from . import _commands
from ._cli_output import OUTCOMES, STYLES, end, json_option
from ._cli_source import Refused, with_source
from ._commands_answers import in_one_line
from ._durations import parse_ms
from .errors import AnarchonError, BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console, RenderableType
    from rich.text import Text

    from ._cli_source import Source
    from ._commands_rows import Table
    from ._commands_top import Board, Frame

_STDIN = 0
_ESCAPE = b"\x1b"  # begins what arrows and other keys send
_TERMINATED = 128 + signal.SIGTERM
_GAP = 2  # between columns
# What a narrow terminal leaves out first.
_LEAST = (
    *("clock offset", "started (UTC)", "version", "host:pid", "last seen", "reason", "took"),
    *("paused", "", "next due", "slot (UTC)", "ended"),
)
_STATES = {"running": "cyan", "idle": "green", "silent": "bold red"}


@click.command("instances", short_help="list the processes that share the store")
@json_option
@with_source
def instances(source: Source, *, as_json: bool) -> None:
    """List the processes whose schedulers share the store, as it heard from each last.

    One without work is heard from when its next slot is due, so until then it is idle, and not
    silent. Below the table is said what they disagree about: schedules, time zone databases, names.
    """
    end(_commands.instances(source.scheduler()), as_json=as_json)


@click.command("top", short_help="watch instances, jobs and running attempts")
@click.option(
    "--every", default="2s", show_default=True, metavar="DURATION", help="How often to look."
)
@json_option
@with_source
def top(source: Source, *, every: str, as_json: bool) -> None:
    """Watch instances, running attempts and jobs on the whole screen, until q or Ctrl-C.

    With --json, and where the output is no terminal, that is one look. Next slots are shown where
    the jobs are defined: with --app. A store that goes down meanwhile is waited for.
    """
    from ._commands_top import Board, one_look

    try:
        ms = parse_ms(every, what="--every", minimum_ms=100, allow_zero=False)
    except ConfigurationError as error:
        raise Refused(in_one_line(error)) from error
    board = Board(source.scheduler())
    if as_json or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        end(one_look(board), as_json=as_json)
    try:
        _watch(board, ms / 1000)
    except KeyboardInterrupt:
        return
    except (AnarchonError, ImportError) as error:
        end(_commands.refusal(error), as_json=False)


def _watch(board: Board, seconds: float) -> None:
    """Show looks on the whole screen until somebody ends it, which leaves it as it was."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    frame, problem = board.look(), ""  # a store that is down at first is no store to wait for
    with _ended_by_sigterm(), _keys() as asked_to_end:
        live = Live(console=console, screen=True, auto_refresh=False)
        with live:
            while True:
                live.update(drawn(frame, console, problem, seconds), refresh=True)
                if asked_to_end(seconds):
                    return
                try:
                    frame, problem = board.look(), ""
                except BackendUnavailable as error:
                    problem = f"waiting for the store: {in_one_line(error)}"


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end this block as exceptions do, so that the terminal is put in order."""

    def leave(_signum: int, _frame: object) -> None:
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Have each key at once, and unseen; yields what waits for some seconds, or for a q."""
    if sys.platform == "win32" or not os.isatty(_STDIN):
        yield _rested  # Ctrl-C is left
        return
    import termios
    import tty

    before = termios.tcgetattr(_STDIN)
    try:
        tty.setcbreak(_STDIN)
        now = termios.tcgetattr(_STDIN)
        # Ctrl-Z would show the shell on a screen that isn't its own.
        now[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(_STDIN, termios.TCSANOW, now)
        yield _pressed
    finally:
        # What was typed meanwhile is not for the shell.
        termios.tcsetattr(_STDIN, termios.TCSAFLUSH, before)


def _rested(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed(seconds: float) -> bool:
    """Wait, and say whether somebody has pressed q, or the terminal is gone."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select([_STDIN], [], [], left)[0]:
            keys = os.read(_STDIN, 64)
            if not keys or (b"q" in keys.lower() and not keys.startswith(_ESCAPE)):
                return True
    return False


# --- what is drawn --------------------------------------------------------------------


def drawn(frame: Frame, console: Console, problem: str, seconds: float) -> RenderableType:
    """Return a look as it fits on a screen."""
    from rich.console import Group

    width, height = console.size
    head = f"anarchon top  {frame.at:%Y-%m-%d %H:%M:%S} UTC, every {seconds:g} s, q ends it"
    parts: list[RenderableType] = [_line(head, "bold")]
    if problem:
        parts.append(_line(problem, "bold red"))
    tables = {title: narrowed(table, width) for title, table in frame.tables.items()}
    below = {title: _wrapped(table.below, width, height) for title, table in tables.items()}
    taken = len(parts) + sum(map(len, below.values()))
    taken += sum(2 + bool(table.rows) for table in tables.values())
    rooms = shared(height - taken, [len(table.rows) for table in tables.values()])
    for (title, table), room in zip(tables.items(), rooms, strict=True):
        count = f" ({len(table.rows)})" if table.rows else ""
        parts += [_line(""), _line(f"{title}{count}", "bold")]
        if table.rows:
            parts += _fitted(table, room)
        parts += [_line(line, "yellow" if table.rows else "") for line in below[title]]
    return Group(*parts)


def shared(room: int, wants: Sequence[int]) -> list[int]:
    """Return how many rows each table gets: what it wants, or a fair share of what is left."""
    got = [0] * len(wants)
    for done, place in enumerate(sorted(range(len(wants)), key=lambda one: wants[one])):
        got[place] = max(min(wants[place], room // (len(wants) - done)), 0)
        room -= got[place]
    return got


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def narrowed(table: Table, width: int) -> Table:
    """Return a table without the columns that matter least, as far as it is too wide."""
    for head in _LEAST:
        widths = [max(map(len, cells)) for cells in zip(table.heads, *table.rows, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) <= width:
            break
        if head in table.heads:
            place = table.heads.index(head)
            heads, *rows = ((*row[:place], *row[place + 1 :]) for row in (table.heads, *table.rows))
            table = table._replace(heads=heads, rows=tuple(rows))
    return table


def _wrapped(lines: Sequence[str], width: int, height: int) -> list[str]:
    """Return lines as they fit below a table, and no more than leave room for the rest."""
    from textwrap import wrap

    found = [part for line in lines for part in wrap(line, max(width, 20))]
    most = max(height // 4, 1)
    return found if len(found) <= most else [*found[: most - 1], "…"]


def _fitted(table: Table, room: int) -> list[RenderableType]:
    """Draw the first rows of a table, each in one line, and say how many are left out."""
    from rich.table import Table as Drawn

    made = Drawn(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for head in table.heads:
        made.add_column(head, no_wrap=True, overflow="ellipsis", header_style="bright_black")
    most = len(table.rows) if len(table.rows) <= room else max(room - 1, 0)
    for row in table.rows[:most]:
        made.add_row(*map(_coloured, table.heads, row))
    left_out = len(table.rows) - most
    return [made, _line(f"… and {left_out} more")] if left_out else [made]


def _coloured(head: str, cell: str) -> Text:
    from rich.text import Text

    styles = {"state": _STATES, "last": OUTCOMES, **STYLES}.get(head, {})
    return Text(cell, style=styles.get(cell.partition(" ")[0].rstrip(","), ""))
