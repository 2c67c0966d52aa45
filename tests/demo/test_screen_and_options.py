"""How the demo looks, and what its command line takes."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest

from anarchon import cli
from anarchon._demo_screen import Screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def shown(out: io.StringIO) -> str:
    Screen(out).line("one", "hello")
    return out.getvalue()


def test_each_instance_has_a_colour_of_its_own_on_a_terminal():
    out = Terminal()
    screen = Screen(out)
    for name in ("one", "two", "three"):
        screen.line(name, "hello")
    prefixes = {line.partition("m")[0] for line in out.getvalue().splitlines()}
    assert len(prefixes) == 3
    assert all(prefix.startswith("\x1b[") for prefix in prefixes)


def test_no_colour_without_a_terminal():
    assert shown(io.StringIO()) == "one   | hello\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_when_the_user_wants_none(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert shown(Terminal()) == "one   | hello\n"


def test_every_line_of_a_traceback_gets_the_prefix():
    out = io.StringIO()
    Screen(out).line("two", "failed\n  File x\n")
    assert out.getvalue() == "two   | failed\ntwo   |   File x\n"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_minutes_have_to_be_a_positive_number(text, capsys):
    with pytest.raises(SystemExit) as error:
        cli.make_parser().parse_args(["demo", "--minutes", text])
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --minutes: {text!r} is no number of minutes; give one such as 5" in said


def test_the_help_names_the_options_of_users_only(capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--help"])
    text = capsys.readouterr().out
    for option in ("--minutes", "--keep", "--database"):
        assert option in text
    assert "--backend" not in text
    assert "--report-every" not in text


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as error:
        cli.main([])
    assert error.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_the_version_is_that_of_the_project(capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(["--version"])
    assert error.value.code == 0
    project = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"
    version = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    assert capsys.readouterr().out == f"anarchon {version}\n"
