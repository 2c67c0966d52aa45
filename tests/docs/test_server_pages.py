"""The programs and settings of the pages about servers are served, and end as the pages say."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from pathlib import Path

import pytest

from anarchon import NotRunning, Scheduler
from anarchon._log_lines import _TEXTS, note_line, scheduler_started, scheduler_stopped
from anarchon._messages import Note
from anarchon._values import RunKey
from anarchon.contrib.gunicorn import hooks
from tests.docs.pages import ROOT, blocks, coded, rows, text_of
from tests.embedding.servers_running import Site

pytestmark = pytest.mark.serial


def save(page: str, folder: Path) -> list[str]:
    """Save what a page saves, on the port of the test, with a job that is due each second."""
    for block in blocks(page):
        if block.file:
            text = block.text.replace('"10s"', '"1s"').replace(":8000", ":" + "{port}")
            (folder / block.file).write_text(text)
    return [block.file for block in blocks(page) if block.file]


@pytest.fixture
def serve(tmp_path):
    site = Site(tmp_path)

    def serve(page, command, *words):
        """Run a command of a page, beside it."""
        saved = save(page, tmp_path)
        program, *rest = shlex.split(command)
        assert f"$ {command}\n" in text_of(page)
        first = (
            sys.executable if program == "python" else str(Path(sys.executable).with_name(program))
        )
        server = site.start([first, *rest, *words], site.options(with_port=saved))
        server.wait_for(lambda: "syncing\n" in server.log(), "a job")
        return server

    yield serve
    site.clean_up()


@pytest.mark.parametrize(
    ("page", "command", "words", "starts"),
    [
        ("gunicorn.md", "gunicorn app:app", ("-b", "127.0.0.1:{port}"), 4),
        ("uwsgi.md", "uwsgi --ini uwsgi.ini", (), 4),
        (
            "other-servers.md",
            "granian --interface wsgi --workers 4 --workers-kill-timeout 30s granian_app:app",
            ("--port", "{port}"),
            4,
        ),
        ("other-servers.md", "python waitress_app.py", (), 1),
    ],
    ids=["gunicorn", "uwsgi", "granian", "waitress"],
)
def test_it_serves_and_stops(serve, page, command, words, starts):
    server = serve(page, command, *words)
    server.wait_for(lambda: len(server.started()) == starts, "every worker")
    server.wait_for(lambda: server.answers("/") == "the scheduler is running\n", "an answer")
    server.process.terminate()
    server.end(0, -15)
    assert server.log().count("scheduler stopped on ") == starts


def test_gunicorn_takes_the_configuration_with_a_hook_of_ones_own(tmp_path):
    [text] = [block.text for block in blocks("gunicorn.md") if block.file == "own_hooks.conf.py"]
    names: dict = {}
    exec(text, names)
    said = []
    worker = type("Worker", (), {"log": type("Log", (), {"info": staticmethod(said.append)})})
    # Theirs comes first, whatever becomes of ours: there is no such module here.
    with pytest.raises(ValueError, match="app of 'app:scheduler'"):
        names["post_worker_init"](worker)
    assert said == ["the worker has booted"]


def test_the_table_of_hooks_has_every_hook():
    told = [name for row in rows("gunicorn.md", "hook", "where") for name in coded(row[0])]
    assert sorted(told) == sorted(hooks("app:scheduler"))


def test_log_lines_that_the_pages_quote_are_there():
    lines = "".join((ROOT / "anarchon" / name).read_text() for name in ("_log_lines.py",))
    for words in ("forked while the scheduler runs", "heartbeat late by", "scheduler stopped on"):
        assert words in lines
    assert "handed over to another" in lines
    assert "still running when stop timed out, left behind" in lines


def test_which_of_the_lines_that_end_a_process_are_always_logged():
    """Those that are warnings; the others are shown with `log=True` alone."""
    line = note_line(Note("left", RunKey("job", 0), "attempt 1"))
    assert line.level == logging.WARNING
    assert scheduler_stopped("here", 1, in_time=True).level == logging.INFO
    assert scheduler_started("here", 1, "memory", "2025b").level == logging.INFO
    assert _TEXTS["interrupted"][0] == logging.WARNING
    assert _TEXTS["started"][0] == logging.INFO


def test_the_script_of_mod_wsgi_can_be_imported(tmp_path, monkeypatch):
    """Outside of Apache it serves nothing, and all that is promised of it is what it says."""
    save("other-servers.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    scheduler = None
    try:
        import wsgi_script

        scheduler = wsgi_script.scheduler
        assert callable(wsgi_script.application)
    finally:
        if scheduler is not None:
            scheduler.stop(2)
        for name in ("wsgi_script", "granian_app"):
            sys.modules.pop(name, None)


def test_defaults_that_the_pages_name():
    from gunicorn.config import Config

    settings = Config().settings
    assert (settings["timeout"].get(), settings["graceful_timeout"].get()) == (30, 30)
    table = rows("graceful-shutdown.md", "server", "how it is told")
    assert [row[3] for row in table][:3] == [
        "`graceful_timeout`, 30 s",
        "`timeout` without a sign of life, 30 s",
        "`timeout` without a sign of life, 30 s",
    ]
    import inspect

    assert inspect.signature(Scheduler).parameters["exit_timeout"].default == 10
    assert inspect.signature(Scheduler).parameters["lease"].default == 30
    for page in ("gunicorn.md", "graceful-shutdown.md"):
        assert re.search(r"\b10 s\b", text_of(page))
        assert re.search(r"\b30 s\b", text_of(page))


def test_what_a_stopping_scheduler_answers():
    from anarchon import MemoryBackend

    scheduler = Scheduler(MemoryBackend())
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    assert scheduler.history() == []
    with pytest.raises(NotRunning):
        scheduler.run_now("job")
