"""The commands on the pages exist, and so do the files and options that they name."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from anarchon.cli import make_parser
from tests.docs.pages import PAGES, ROOT, blocks, environment, said_lines


def sessions(text: str):
    """Yield each command of a block, and the lines that the page says it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


COMMANDS = [
    (page, *session)
    for page in PAGES
    for block in blocks(page, "console")
    for session in sessions(block.text)
]
EDITION = re.compile(r"tzdata \w+")
SAVED = {block.file for page in PAGES for block in blocks(page) if block.file}


def install(_page, what):
    """The checkout, with an extra that it has, or one version of something else."""
    if found := re.fullmatch(r"\.|'\.\[(\w+)\]'", what):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return found[1] is None or found[1] in project["optional-dependencies"]
    return bool(Requirement(what).specifier)


def program(_page, name):
    return name in SAVED


def kill(page, pid):
    """A process that the page has shown."""
    return any(f":{pid} " in line for line in said_lines(page))


def ours(_page, text):
    """The demo takes a minute and has tests of its own; everything else is run."""
    words = shlex.split(text)
    return words[0] != "demo" or make_parser().parse_args(words) is not None


def rights(page, _rules):
    """Those of a user of Redis; tests/stores/test_redis_refusals.py gives them to one."""
    return page == "redis.md"


KNOWN = [
    (re.compile(r"redis-cli ACL SETUSER jobs (.+)"), rights),
    (re.compile(r"python -m pip install (\S+)"), install),
    (re.compile(r"(?:PYTHONTZPATH= )?python (\w+\.py)"), program),
    (re.compile(r"kill -9 (\d+)"), kill),
    (re.compile(r"anarchon (.+)"), ours),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_block_of_commands_begins_with_one(page):
    assert all(block.text.startswith("$ ") for block in blocks(page, "console"))


@pytest.mark.parametrize(("page", "command", "output"), COMMANDS)
def test_a_command_is_there(page, command, output):
    matches = [(check, match[1]) for form, check in KNOWN if (match := form.fullmatch(command))]
    [(check, argument)] = matches
    assert check(page, argument)
    assert not output or command.startswith("anarchon ")


@pytest.mark.parametrize(
    ("command", "output"),
    [session[1:] for session in COMMANDS if re.match(r"anarchon (?!demo\b)", session[1])],
)
def test_a_command_prints_what_the_page_shows(command, output, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "anarchon", *shlex.split(command)[1:]],
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING="utf-8"),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not output or EDITION.sub("tzdata", done.stdout) == EDITION.sub("tzdata", output)


def test_with_an_empty_variable_python_reads_the_package_alone(tmp_path):
    program = "from anarchon._tzdata import tzdata_version; print(tzdata_version())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(PYTHONTZPATH=""),
        capture_output=True,
        text=True,
        check=True,
    )
    import tzdata

    assert done.stdout.strip() == tzdata.IANA_VERSION
    # 2025b is called 2025.2 where packages are numbered.
    year, _, number = version("tzdata").partition(".")
    assert f"{year}{chr(ord('a') + int(number.partition('.')[0]) - 1)}" == tzdata.IANA_VERSION
