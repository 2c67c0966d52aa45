"""How the demo looks: one line per thing said, with the speaker's coloured name before it."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

_COLOURS = {"one": "36", "two": "33", "three": "35"}
_BOLD = "1"
_WIDTH = 6


class Screen:
    """Prints what the instances say, what the demo does, and the summary."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._coloured = wants_colour(self._out)

    def line(self, name: str, text: str) -> None:
        """Print what an instance said, behind its name."""
        for part in text.splitlines() or [""]:
            self._put(f"{self._paint(name.ljust(_WIDTH), _COLOURS.get(name, _BOLD))}| {part}")

    def narrate(self, text: str) -> None:
        """Print what the demo itself does, set off from the log lines."""
        self._put("")
        for part in textwrap.wrap(text, 92):
            self._put(self._paint(f"{'demo'.ljust(_WIDTH)}> {part}", _BOLD))
        self._put("")

    def heading(self, text: str) -> None:
        """Print a heading of the summary."""
        self._put("")
        self._put(self._paint(text, _BOLD))

    def item(self, text: str) -> None:
        """Print an item of the summary, indented and wrapped."""
        self._put(textwrap.fill(text, 96, initial_indent="  - ", subsequent_indent="    "))

    def _put(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured else text


def wants_colour(out: TextIO) -> bool:
    """Colours are for terminals, unless the user asked for none."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return out.isatty() and not plain
