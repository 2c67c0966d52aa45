"""The entry of the command line: with and without click, in processes and in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import anarchon
from anarchon import _cli_next
from tests.cli.runner import run

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = Path(sys.executable).parent / "anarchon"
HIDING = (
    "import sys; sys.modules[{module!r}] = None; from anarchon.cli import main; sys.exit(main())"
)


def environment(**more: str) -> dict[str, str]:
    """Let subprocesses import what this process imports, wheel or checkout."""
    return {**os.environ, "PYTHONPATH": str(Path(anarchon.__file__).parent.parent), **more}


def process(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(**more),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def run_without(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    return process(sys.executable, "-c", HIDING.format(module=module), *words)


# --- the base install ---


@pytest.mark.parametrize("module", ["click", "rich"])
@pytest.mark.parametrize("words", [["next", "0 8 * * *"], ["schema"], ["nonsense", "--help"]])
def test_without_its_packages_a_command_names_the_extra(module, words):
    done = run_without(module, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"anarchon {words[0]}: the commands other than demo need more packages; install them:"
        " python -m pip install 'anarchon[cli]'\n"
    )


def test_without_click_the_help_lists_the_demo_and_names_the_extra():
    done = run_without("click", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "demo watch three processes share jobs" in said
    assert '"next" (the next slots of a schedule)' in said
    assert "python -m pip install 'anarchon[cli]'" in said


def test_without_click_the_demo_reads_its_options():
    done = run_without("click", "demo", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--minutes" in done.stdout
    done = run_without("click", "demo", "--minutes", "soon")
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --minutes: 'soon' is no number of minutes" in done.stderr


def test_without_click_the_version_and_a_missing_command_are_as_with_it():
    assert run_without("click", "--version").stdout == f"anarchon {anarchon.__version__}\n"
    done = run_without("click")
    assert (done.returncode, done.stdout) == (2, "")
    assert "required: COMMAND" in done.stderr


def test_the_demo_does_without_the_packages_also_where_they_are(monkeypatch):
    for module in ("click", "rich", "cron_descriptor"):
        monkeypatch.setitem(sys.modules, module, None)
    status, out, _ = run("demo", "--help")
    assert status == 0
    assert "--minutes" in out


# --- with click ---


@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "anarchon"]])
def test_both_entries_show_the_next_slots(command):
    done = process(*command, "next", "0 8 * * *", "--after", "2026-12-01T00:00Z", "-n", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "at 08:00, every day"
    assert done.stdout.splitlines()[-1].startswith("1  Tue 2026-12-01 08:00 +00:00")


def test_the_output_doesnt_depend_on_the_locale_and_an_arrow_needs_utf_8():
    words = ["next", "0 4 * * fri", "--timezone", "Europe/Athens", "-n", "2"]
    command = [sys.executable, "-m", "anarchon", *words, "--after", "2026-03-26T00:00Z"]
    english = process(*command, LC_ALL="C.UTF-8", PYTHONIOENCODING="utf-8").stdout
    assert "at 04:00, only on Friday (Europe/Athens)\n" in english
    assert " 03:00 → 04:00 EEST\n" in english
    assert process(*command, LC_ALL="de_DE.UTF-8", PYTHONIOENCODING="utf-8").stdout == english
    plain = process(*command, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stdout) == (0, english.replace("→", "->"))


def test_help_lists_every_command_and_its_summary():
    status, out, err = run("--help")
    assert (status, err) == (0, "")
    listed = [line.split(None, 1) for line in out.partition("Commands:\n")[2].splitlines()]
    assert listed == [
        ["backfill", "ask the fleet to run past slots of a job"],
        ["cancel", "end the run of a slot, wherever it goes on"],
        ["demo", "watch three processes share jobs, hand one over and take one over"],
        ["doctor", "say what is wrong with the store, and how to mend it"],
        ["explain", "tell what became of a slot, and why"],
        ["export", "write the whole history as lines of JSON"],
        ["history", "list the last runs, newest first"],
        ["instances", "list the processes that share the store"],
        ["jobs", "list the jobs, their next slots, and what is paused"],
        ["next", "show the next slots of a schedule, or of a job"],
        ["pause", "stop starts of a job, or of all, on every instance"],
        ["resume", "end a pause"],
        ["run", "be an instance until SIGTERM or Ctrl-C"],
        ["run-now", "run a job now, in this process"],
        ["schema", "print what a store in PostgreSQL needs, as SQL"],
        ["tail", "show records as they come"],
        ["top", "watch instances, jobs and running attempts"],
        ["trigger", "ask the fleet to run a job once, now"],
    ]


def test_the_demo_has_its_own_options_also_as_a_command_of_click():
    status, out, _ = run("--", "demo", "--help")
    assert status == 0
    assert "--minutes" in out
    status, _, err = run("--", "demo", "--minutes", "-1")
    assert status == 2
    assert "is no number of minutes" in err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nxet", "there is no command 'nxet'; did you mean 'next'?"),
        ("dmeo", "there is no command 'dmeo'; did you mean 'demo'?"),
        ("zzz", "there is no command 'zzz'; anarchon --help lists them"),
    ],
)
def test_an_unknown_command_suggests_the_nearest(name, hint):
    status, out, err = run(name)
    assert (status, out) == (2, "")
    assert hint in err


def test_an_unknown_option_is_refused():
    status, out, err = run("--colour")
    assert (status, out) == (2, "")
    assert "--colour" in err


def test_a_missing_command_is_refused():
    status, out, err = run()
    assert (status, out) == (2, "")
    assert "COMMAND" in err


# --- ends that nobody wants to read about ---


@pytest.mark.parametrize("words", [[], ["--json"], ["-n", "1000"]])
def test_a_reader_that_went_away_is_no_error(words):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "anarchon", "next", "1s", *words],
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "anarchon", "next", "1s"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "anarchon: [Errno 28] No space left on device\n")


def test_an_interrupt_is_quiet(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_cli_next, "read_schedule", interrupted)
    status, out, err = run("next", "90m")
    assert (status, out, err.strip()) == (130, "", "")


def test_an_interrupt_while_packages_are_loaded_is_quiet():
    program = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from anarchon.cli import main\n"
        "sys.exit(main())\n"
    )
    done = process(sys.executable, "-c", program, "next", "90m")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# --- packaging ---


def test_the_extras_bring_what_the_commands_and_the_tests_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {name: " ".join(extras[name]) for name in extras}
    assert "cron-descriptor" in names["describe"]
    assert all(name in names["cli"] for name in ("click", "rich", "anarchon[describe]"))
    assert "cli" in names["all"]
    assert "anarchon[all]" in names["test"]
    assert project["version"] == anarchon.__version__
