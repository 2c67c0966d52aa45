"""Where a scheduler of Flask starts by itself: in the process that serves, and nowhere else."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from urllib.request import urlopen

import pytest

from tests.embedding.flask_apps import PROGRAM, history, running
from tests.servers.processes import free_port

FLASK = ("-m", "flask", "--app", "app")


def ask(port: int, path: str = "/") -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def answer_of(port: int) -> str | None:
    """Return what a server answers, or None where there is none yet."""
    with suppress(OSError):
        return ask(port)
    return None


def instances(folder) -> set[int]:
    """Return the processes that claimed anything."""
    return {int(run.instance_id.rpartition(":")[2]) for run in history(folder) if run.instance_id}


# --- the development server ---


def test_flask_run_with_the_reloader_has_one_scheduler_in_the_child(tmp_path):
    """A touched file has one scheduler stop before the next starts; Ctrl-C stops the last."""
    with running(tmp_path, *FLASK, "run", "--debug", "--port", "0") as server:
        server.wait_for(lambda: server.told("sync"), "a run")
        [first] = server.pids("sync")
        [parent, child] = server.pids("imported")
        assert (parent, child) == (server.pid, first)
        assert server.told("sync")[0]["app"] == "app"
        assert ask(server.port()) == "running"
        stat = (tmp_path / "app.py").stat()
        os.utime(tmp_path / "app.py", ns=(stat.st_atime_ns, stat.st_mtime_ns + 5_000_000_000))
        server.wait_for(lambda: len(server.pids("sync")) == 2, "a run after the reload")
        second = server.pids("sync")[-1]
        assert server.pids("imported") == [parent, first, second]
        server.press_with_room()
        assert server.started() == server.stopped() == [first, second]
        log = server.log()
        assert log.index(f"stopped on {_name(log, first)}") < log.index(
            f"started on {_name(log, second)}"
        )
    assert instances(tmp_path) == {first, second}


def _name(log: str, pid: int) -> str:
    """Return the name of an instance, as the log has it."""
    line = next(line for line in log.splitlines() if f":{pid} (" in line)
    return line.partition(" on ")[2].split()[0]


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ((*FLASK, "run", "--port", "0"), 1),
        ((*FLASK, "run", "--port", "0", "--reload"), 2),
        ((*FLASK, "run", "--port", "0", "--debug", "--no-reload"), 1),
        (("app.py", "0", "debug"), 2),
    ],
    ids=["run", "run --reload", "run --debug --no-reload", "app.run(debug=True)"],
)
def test_a_development_server_starts_without_a_request(tmp_path, command, processes):
    with running(tmp_path, *command) as server:
        server.wait_for(lambda: server.told("sync"), "a run")
        imported = server.pids("imported")
        assert len(imported) == processes
        assert server.pids("sync") == imported[-1:]
        assert server.told("sync")[0]["late"] == "found"
        (server.press_with_room if processes > 1 else server.press)()
        assert server.started() == server.stopped() == imported[-1:]
    assert instances(tmp_path) == {imported[-1]}
    # A job that began while its module was imported would not have found all of it.
    assert "failed" not in {run.status for run in history(tmp_path)}


def test_app_run_without_the_reloader_starts_with_the_first_request(tmp_path):
    with running(tmp_path, "app.py", "0", "plain") as server:
        ask(server.port())
        server.wait_for(lambda: server.told("sync"), "a run")
        server.press()
        assert server.started() == server.stopped() == [server.pid]


def test_a_request_says_once_that_nobody_starts_it(tmp_path):
    """And where ANARCHON_AUTOSTART is False, nothing is said."""
    said = "but nothing has started its scheduler (1 job)"
    for variables, count in (({}, 1), ({"FLASK_ANARCHON_AUTOSTART": "false"}, 0)):
        folder = tmp_path / str(count)
        folder.mkdir()
        program = PROGRAM.replace("    ANARCHON_AUTOSTART=True,\n", "")
        command = (*FLASK, "run", "--port", "0")
        with running(folder, *command, program=program, **variables) as server:
            assert [ask(server.port()) for _ in range(3)] == ["idle"] * 3
            assert server.log().count(said) == count
            server.press()
            assert server.started() == []


SLOW = """
@jobs.every("slow", "1s")
def slow(ctx):
    tell("slow")
    try:
        ctx.signal.sleep(60)
    finally:
        time.sleep({tidies})
"""


@pytest.mark.parametrize(
    ("words", "end", "status"),
    [
        (["--debug"], "reload", "interrupted"),
        (["--debug"], signal.SIGINT, "running"),
        (["--debug"], signal.SIGTERM, "running"),
        (["--debug", "--no-reload"], signal.SIGINT, "interrupted"),
        (["--debug", "--no-reload"], signal.SIGTERM, "running"),
    ],
)
def test_ends_of_the_development_server(tmp_path, words, end, status):
    """Its parent, which reloads, kills the child 0.25 s after Ctrl-C, and at once at SIGTERM."""
    # What is killed would need much longer, so that no busy machine gives it the time.
    slow = SLOW.format(tidies=0.7 if status == "interrupted" else 2.5)
    program = PROGRAM.replace('tell("imported")', f'{slow}\ntell("imported")')
    with running(tmp_path, *FLASK, "run", *words, "--port", "0", program=program) as server:
        server.wait_for(lambda: server.told("slow"), "a run")
        first = server.pids("slow")[0]
        if end == "reload":
            os.utime(tmp_path / "app.py", (time.time() + 5, time.time() + 5))
            server.wait_for(lambda: first in server.stopped(), "a stop")
        elif end == signal.SIGTERM:
            os.kill(server.pid, end)
            server.process.wait(30)
        else:
            server.press()
        assert server.stopped() == [first] * (status == "interrupted")
    assert [run.status for run in history(tmp_path) if run.job == "slow"][-1] == status


def test_an_app_that_flask_run_does_not_serve_is_not_started(tmp_path):
    """A module may have others, of which one may be mounted: its first request starts it."""
    other = """
def other():
    app = Flask("other")
    app.config.update(ANARCHON_BACKEND="memory://", ANARCHON_AUTOSTART=True)
    return Anarchon(app).every("other", "200ms", lambda: tell("other")).scheduler

other = other()
app.get("/other")(lambda: other.state)
"""
    program = PROGRAM.replace('tell("imported")', f'{other}\ntell("imported")')
    with running(tmp_path, *FLASK, "run", "--port", "0", program=program) as server:
        server.wait_for(lambda: len(server.told("sync")) > 1, "two runs")
        assert ask(server.port(), "/other") == "idle"
        assert server.told("other") == []
        server.press()


def test_app_run_that_flask_ignores_starts_nothing(tmp_path):
    """As in a program that a view below ``flask run --debug`` starts: it inherits the variables."""
    variables = {"WERKZEUG_RUN_MAIN": "true", "FLASK_RUN_FROM_CLI": "true"}
    program = PROGRAM + '    tell("ran", state=jobs.scheduler.state)\n'
    with running(tmp_path, "app.py", "0", "plain", program=program, **variables) as process:
        assert process.process.wait(30) == 0, process.log()
        assert [told["state"] for told in process.told("ran")] == ["idle"]


# --- commands that serve ---

SERVING = """
@app.cli.command("serve")
def serve():
    import waitress
    waitress.serve(app, port=int(os.environ["PORT"]))

@app.cli.group("our")
def our(): ...

@our.command("server")
def server():
    from werkzeug.serving import run_simple
    run_simple("127.0.0.1", int(os.environ["PORT"]), app, threaded=False, use_reloader=True)
"""

REPLACED = """
import os, click
from flask.cli import pass_script_info

@click.command("run")
@pass_script_info
def run(info):
    from werkzeug.serving import run_simple
    run_simple("127.0.0.1", int(os.environ["PORT"]), info.load_app(), use_reloader=True)
"""


@pytest.mark.parametrize(
    ("words", "processes"),
    [(["serve"], 1), (["our", "server"], 2), (["run"], 2)],
    ids=["waitress", "with a reloader, in a group", "run, replaced"],
)
@pytest.mark.parametrize("autostart", [True, False])
def test_a_command_of_ones_own_that_serves(tmp_path, words, processes, autostart):
    """The first request starts it, in the process that serves; or says that nothing has."""
    plugin = tmp_path / "replaced-1.0.dist-info"
    if words == ["run"]:  # as Flask-SocketIO does it
        plugin.mkdir()
        (plugin / "METADATA").write_text("Name: replaced\nVersion: 1.0\n")
        (plugin / "entry_points.txt").write_text("[flask.commands]\nrun = replaced:run\n")
        (tmp_path / "replaced.py").write_text(REPLACED)
    program = PROGRAM.replace('tell("imported")', f'{SERVING}\ntell("imported")')
    if not autostart:
        program = program.replace("    ANARCHON_AUTOSTART=True,\n", "")
    port = free_port()
    with running(tmp_path, *FLASK, *words, program=program, PORT=str(port)) as server:
        server.wait_for(lambda: len(server.pids("imported")) == processes, "the processes")
        parent, serving = server.pids("imported")[0], server.pids("imported")[-1]
        assert server.started() == []
        first = server.wait_for(lambda: answer_of(port), "an answer")
        assert (first == "idle") == (not autostart)
        if autostart:
            server.wait_for(lambda: server.told("sync"), "a run")
        server.press()
        assert server.started() == [serving] * autostart
        assert ("nothing has started its scheduler" in server.log()) == (not autostart)
        assert parent == server.pid
    assert instances(tmp_path) == {serving} if autostart else not (tmp_path / "jobs.db").exists()


# --- commands that serve nothing ---


FREEZE = """
@app.cli.command("freeze")
def freeze():
    tell("frozen", page=app.test_client().get("/").text)
"""
# The shell runs this before it reads what is typed.
TYPED = """
from flask import current_app
current_app.test_client().get("/")
with current_app.test_request_context():
    current_app.full_dispatch_request()
"""


@pytest.mark.parametrize("words", [["routes"], ["anarchon", "jobs"], ["shell"], ["freeze"]])
@pytest.mark.parametrize("child", [False, True], ids=["", "below a reloader's child"])
def test_a_command_starts_nothing(tmp_path, words, child):
    """Nor does a page that it asks the app for, without a server."""
    variables = {"WERKZEUG_RUN_MAIN": "true"} if child else {}
    (tmp_path / "typed.py").write_text(TYPED)
    program = PROGRAM.replace('tell("imported")', f'{FREEZE}\ntell("imported")')
    variables |= {"FLASK_DEBUG": "1", "PYTHONSTARTUP": str(tmp_path / "typed.py")}
    with running(tmp_path, *FLASK, *words, program=program, **variables) as command:
        assert command.process.wait(30) == 0, command.log()
        assert command.pids("imported") == [command.pid]
        assert [told["page"] for told in command.told("frozen")] == ["idle"] * (words == ["freeze"])
        assert "scheduler started" not in command.log()
    assert not (tmp_path / "jobs.db").exists()


def test_flask_anarchon_run_is_an_instance_until_sigterm(tmp_path):
    with running(tmp_path, *FLASK, "anarchon", "run", "--json") as worker:
        worker.wait_for(lambda: len(worker.told("sync")) > 1, "runs")
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.process.wait(30) == 0
        assert worker.started() == worker.stopped() == [worker.pid]
        lines = worker.log().splitlines()
        assert any(line.startswith("1 job on <SqliteBackend ") for line in lines)
        runs = [json.loads(line) for line in lines if line.startswith("{")]
        assert {(run["job"], run["status"]) for run in runs} == {("sync", "success")}
    assert instances(tmp_path) == {worker.pid}


def test_flask_anarchon_run_now_interrupted_by_ctrl_c(tmp_path):
    work = "jobs.every('long', '1h', lambda ctx: (tell('long'), ctx.signal.sleep(60)))"
    program = PROGRAM.replace('tell("imported")', f'{work}\ntell("imported")')
    with running(tmp_path, *FLASK, "anarchon", "run-now", "long", program=program) as command:
        command.wait_for(lambda: command.told("long"), "the run")
        command.press()
        assert command.process.returncode == 1
    [run] = history(tmp_path)
    assert (run.job, run.status, run.manual) == ("long", "interrupted", True)
