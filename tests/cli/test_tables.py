"""How output looks: colour and boxes on a terminal, plain text everywhere else."""

from __future__ import annotations

import io
import re

import pytest

from anarchon._cli_tables import Sheet


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


ROWS = [("1", "one", "x"), "between [the] two", ("10", "two", "")]
PLAIN = "title\n#   word  note\n1   one   x\n    between [the] two\n10  two\n"


def written(out: io.StringIO) -> str:
    sheet = Sheet(out)
    sheet.heading("title")
    sheet.table(("#", "word", "note"), ROWS)
    return out.getvalue()


def test_what_is_no_terminal_gets_plain_text():
    assert written(io.StringIO()) == PLAIN


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_so_does_who_wants_it(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert written(Terminal()) == PLAIN


def test_no_variable_forces_colour_into_a_file(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert written(io.StringIO()) == PLAIN


def test_a_terminal_gets_colour_and_a_rule():
    text = written(Terminal())
    assert "\x1b[1mtitle\x1b[0m\n" in text
    assert "────" in text
    assert "\x1b[33m    between [the] two\x1b[0m" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert [line.split() for line in lines[-3:-2] + lines[-1:]] == [
        ["1", "one", "x"],
        ["10", "two"],
    ]
    assert lines[-3].index("one") == lines[-1].index("two")


def test_a_terminal_that_is_too_narrow_loses_nothing(monkeypatch):
    monkeypatch.setenv("COLUMNS", "14")
    text = re.sub(r"\x1b\[[0-9;]*m", "", written(Terminal()))
    assert text == PLAIN


def test_the_end_of_a_row_is_broken_and_not_cut_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "16")
    out = Terminal()
    Sheet(out).table(("#", "word", "note"), [("1", "one", "customers")])
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    last = "".join(line[10:].strip() for line in text.splitlines() if "─" not in line)
    assert "─" in text
    assert last == "notecustomers"


def test_long_lines_in_a_file_are_not_broken():
    out = io.StringIO()
    sheet = Sheet(out)
    sheet.heading("a " * 100)
    sheet.table(("#", "note"), [("1", "b " * 100), "c " * 100])
    assert len(out.getvalue().splitlines()) == 4


@pytest.mark.parametrize(("encoding", "arrow"), [("utf-8", "→"), ("ascii", "->"), ("cp1252", "->")])
def test_an_arrow_that_the_stream_can_take(encoding, arrow):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert Sheet(out).arrow == arrow
