"""The commands on the pages exist, and so do the files and options that they name."""

from __future__ import annotations

import importlib.util
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
    """The checkout, with extras that it has, or one version of something else."""
    if found := re.fullmatch(r"\.|'(?:\.|/path/to/anarchon)\[([\w,]+)\]'", what):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return not found[1] or {*found[1].split(",")} <= {*project["optional-dependencies"]}
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


def variable(_page, name):
    """Of the command line; tests/docs/test_command_line.py runs what follows on its page."""
    from anarchon import _cli_source

    return name in (_cli_source.APP, _cli_source.BACKEND, _cli_source.NAMESPACE)


def completion(_page, shell):
    """One that click knows; tests/cli/test_operator.py completes a word."""
    from click.shell_completion import get_completion_class

    return get_completion_class(shell) is not None


def shared_folder(page, _command):
    """Of the client of Prometheus; tests/metrics/test_processes.py has processes that use one."""
    return page == "metrics.md"


def long_form(_page, command):
    """Of what there is; tests/docs/test_how_it_is_tested.py looks at the options as well."""
    module = re.search(r"-m (tests\.\w+)", command)
    files = [ROOT / word for word in command.split() if word.startswith(("tests/", "anarchon/"))]
    found = module is None or importlib.util.find_spec(module[1]) is not None
    return found and all(file.exists() for file in files)


def flask_command(_page, text):
    """One of Flask's own, or of ours, with options that it takes; test_flask_page.py runs ours."""
    from flask.cli import run_command

    from anarchon.contrib._flask_cli import group

    words = shlex.split(text)
    command = run_command if words[0] == "run" else group if words[0] == "anarchon" else None
    if command is group:
        words = words[1:]
        command = group.commands.get(words[0])
    return command is not None and command.make_context(words[0], words[1:]) is not None


def django_command(page, text):
    """One of a Django project; test_django_page.py runs those of its page."""
    from django.core.management import get_commands

    from anarchon.contrib.django.management.commands.anarchon import Command

    words = shlex.split(text)
    if words[0] == "anarchon":
        return Command().create_parser("manage.py", "anarchon").parse_args(words[1:]) is not None
    return page == "django.md" and words[0] in {*get_commands(), "createsuperuser"}


def gunicorn(page, words):
    """An app in a program of the pages, served with options that gunicorn has."""
    from gunicorn.config import Config

    options = Config().parser().parse_args(shlex.split(words))
    [app] = options.args
    if page == "django.md":  # what `startproject mysite` makes
        return app == "mysite.wsgi:application"
    if app == "shop:create_app()":  # tests/docs/test_flask_page.py serves it
        return page == "flask.md"
    return f"{app.partition(':')[0]}.py" in SAVED


def uwsgi(_page, words):
    """With settings of the pages; tests/docs/test_server_pages.py starts it with them."""
    option, settings = shlex.split(words)
    return option == "--ini" and settings in SAVED


def granian(_page, words):
    """An app in a program of the pages; tests/docs/test_server_pages.py serves it."""
    return f"{shlex.split(words)[-1].partition(':')[0]}.py" in SAVED


KNOWN = [
    (re.compile(r"uwsgi (.+)"), uwsgi),
    (re.compile(r"granian (.+)"), granian),
    (re.compile(r"flask (.+)"), flask_command),
    (re.compile(r"(?:django-admin|python manage\.py) (.+)"), django_command),
    (re.compile(r"gunicorn (.+)"), gunicorn),
    (re.compile(r"redis-cli ACL SETUSER jobs (.+)"), rights),
    (re.compile(r"python -m pip install (\S+)"), install),
    (re.compile(r"(?:PYTHONTZPATH= )?python (\w+\.py)"), program),
    (re.compile(r"kill -9 (\d+)"), kill),
    (re.compile(r"anarchon (.+)"), ours),
    (re.compile(r"export (ANARCHON_\w+)=\S+"), variable),
    (re.compile(r"(mkdir -p metrics && rm -f metrics/\*\.db)"), shared_folder),
    (re.compile(r"(export PROMETHEUS_MULTIPROC_DIR=metrics)"), shared_folder),
    (re.compile(r'eval "\$\(_ANARCHON_COMPLETE=(\w+)_source anarchon\)"'), completion),
    (re.compile(r"(tox|(?:ANARCHON_\w+=\S+ )?python -m (?:tests\.|pytest ).+)"), long_form),
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
    [
        (command, output)
        for page, command, output in COMMANDS
        # The commands of that page follow each other, and test_command_line.py runs them.
        if re.match(r"anarchon (?!demo\b)", command) and page != "command-line.md"
    ],
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
