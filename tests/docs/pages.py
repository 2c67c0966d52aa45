"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import anarchon

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))

BLOCK = re.compile(
    r"^(?:<!-- (?P<key>file|not run): (?P<value>[^\n]+) -->\n)?"
    r"```(?P<language>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it begins on, and what stands above."""

    page: str
    language: str
    text: str
    line: int
    file: str | None  # the name under which the reader saves it
    not_run: str | None  # why it can't be run


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in these languages, or all of them."""
    text, found = text_of(page), []
    for match in BLOCK.finditer(text):
        above = {match["key"]: match["value"]}
        line = text.count("\n", 0, match.start("text"))
        values = (above.get("file"), above.get("not run"))
        found.append(Block(page, match["language"], match["text"], line, *values))
    fences = len(re.findall(r"^```", text, re.MULTILINE))
    assert fences == 2 * len(found), f"{page} has a fence that is no block"
    return [block for block in found if not languages or block.language in languages]


def rows(page: str, *heads: str) -> list[list[str]]:
    """Return the cells of the one table whose first heads are these."""
    first = "| " + " | ".join(heads) + " |"
    lines = iter(text_of(page).splitlines())
    assert any(line.startswith(first) for line in lines), f"{page} has no table {first}"
    next(lines)  # the rule below the heads
    found = []
    for line in lines:
        if not line.startswith("| "):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def coded(cell: str) -> list[str]:
    """Return what a cell shows as code."""
    return re.findall(r"`([^`]+)`", cell)


def said_lines(page: str) -> list[str]:
    """Return the log lines that a page shows."""
    return [line for block in blocks(page, "text") for line in block.text.splitlines()]


def shape(line: str) -> str:
    """Return a log line without what differs from one time to the next."""
    line = DATED.sub("WHEN", line)
    line = re.sub(r" on \S+:\d+", " on WHO", line)
    line = re.sub(r"\d+ ms", "N ms", line)
    line = re.sub(r"sqlite [\d.]+, tzdata \w+", "sqlite VERSION, tzdata EDITION", line)
    return re.sub(r"\(attempt 1, (catch-up|scheduled)\)", "(attempt 1, IN TIME OR LATE)", line)


def environment(**more: str) -> dict[str, str]:
    """Let subprocesses import what this process imports, wheel or checkout."""
    return {**os.environ, "PYTHONPATH": str(Path(anarchon.__file__).parent.parent), **more}
