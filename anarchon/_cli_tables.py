"""Tables for people: with colour on a terminal, plain text everywhere else."""

from __future__ import annotations

import os
from itertools import accumulate
from typing import TYPE_CHECKING, TextIO, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    Styles: TypeAlias = Mapping[str, Mapping[str, str]]
    Part: TypeAlias = tuple[int, int, str]  # from, to, and the style

_ENDLESS = 10_000  # lines that go into a file are not broken


class Sheet:
    """Lines and tables on a stream.

    They are plain text, without colour and without drawn boxes, if the stream is no terminal or
    the environment says so (``NO_COLOR``, ``TERM=dumb``).

    Args:
        out: The stream.
    """

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._is_plain = bool(refused) or not out.isatty()
        self._console = Console(
            file=out,
            width=_ENDLESS if self._is_plain else None,
            color_system=None if self._is_plain else "auto",
            force_terminal=not self._is_plain,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def arrow(self) -> str:
        """An arrow that the stream can take."""
        return "→" if self._console.encoding.lower().startswith("utf") else "->"

    def heading(self, text: str) -> None:
        """Write a line that stands out."""
        self._console.print(text, style="bold")

    def line(self, text: str, part: Part | None = None) -> None:
        """Write a line, with a part of it in a style."""
        self._console.print(_styled(text, (part,) if part else ()), soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str] | str],
        styles: Styles | None = None,
    ) -> None:
        """Write a table; a row that is one text is a remark between two others.

        Args:
            columns: The heads.
            rows: The cells.
            styles: By column, the styles of cells with certain texts.
        """
        cells = [columns, *(row for row in rows if not isinstance(row, str))]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if self._is_plain or self._console.width < sum(widths[:-1]) + 3 * len(widths):
            self._plain_table(columns, rows, widths, styles or {})
            return
        table = _new_table(columns, widths, with_header=True)
        for row in rows:
            if isinstance(row, str):
                self._console.print(table)
                self._console.print(f"{' ' * widths[0]}  {row}", style="yellow", soft_wrap=True)
                table = _new_table(columns, widths, with_header=False)
            else:
                found = [_style_of(*pair, styles or {}) for pair in zip(columns, row, strict=True)]
                parts = zip(row, found, strict=True)
                table.add_row(*(_styled(cell, ((0, len(cell), style),)) for cell, style in parts))
        self._console.print(table)

    def _plain_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str] | str],
        widths: Sequence[int],
        styles: Styles,
    ) -> None:
        # Other programs read this, so it must not depend on the version of rich; and rich would
        # crop what is wider than the terminal.
        for row in [columns, *rows]:
            cells = ["", row] if isinstance(row, str) else row
            texts = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
            starts = accumulate((width + 2 for width in widths), initial=0)
            parts = [
                (start, start + len(cell), _style_of(column, cell, styles))
                for start, column, cell in zip(starts, columns, cells, strict=False)
            ]
            line = _styled("  ".join(texts).rstrip(), () if row is columns else parts)
            self._console.print(line, soft_wrap=True)


def _style_of(column: str, cell: str, styles: Styles) -> str:
    return styles.get(column, {}).get(cell, "")


def _styled(text: str, parts: Iterable[Part]) -> Text:
    from rich.text import Text

    shown = Text(text)
    for start, end, style in parts:
        if style:
            shown.stylize(style, start, end)
    return shown


def _new_table(columns: Sequence[str], widths: Sequence[int], *, with_header: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_header=with_header, show_edge=False, pad_edge=False)
    for column, width in zip(columns[:-1], widths[:-1], strict=True):
        table.add_column(column, min_width=width, no_wrap=True)
    # Remarks at the end of a row may be broken where a terminal is narrow; nothing is cut off.
    table.add_column(columns[-1], overflow="fold")
    return table
