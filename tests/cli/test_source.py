"""Where commands find the app and the store: options, the environment, and what is refused."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cli.runner import run

NO_STORE = (
    "which store? give --app module:scheduler (or set ANARCHON_APP), or --backend URL (or set"
    " ANARCHON_BACKEND)"
)
NO_APP = (
    "only the code knows the jobs, so this needs --app module:scheduler (or set ANARCHON_APP);"
    " --backend shows what the store knows: history, explain, tail, export"
)
DOWN = "redis://:hunter2@127.0.0.1:1/0"


def jobs_of(*words: str) -> list[str]:
    status, out, err = run("jobs", *words)
    assert (status, err) == (0, "")
    return [line.split()[0] for line in out.splitlines()[1:]]


def refused(*words: str) -> str:
    """Return the one line of a refusal, without the name of the command."""
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    start = f"anarchon {words[0]}: "
    assert err.startswith(start)
    assert err.count("\n") == 1
    return err.removeprefix(start).rstrip("\n")


@pytest.mark.parametrize("app", ["shop:scheduler", "shop:create()", "shop:Holder.inner"])
def test_the_app_is_found_in_the_folder(folder, app):
    assert jobs_of("--app", app) == ["sync", "digest"]


def test_the_environment_names_the_app_and_what_is_typed_wins(shop, monkeypatch):
    assert jobs_of() == ["sync", "digest"]
    (shop / "other.py").write_text("from shop import scheduler\nscheduler.remove('sync')\n")
    assert jobs_of("--app", "other:scheduler") == ["digest"]
    monkeypatch.setenv("ANARCHON_BACKEND", DOWN)
    assert run("history").out == "no runs\n"  # the app's store
    assert "127.0.0.1:1" in run("history", "--backend", DOWN).err
    monkeypatch.setenv("ANARCHON_APP", "")
    assert "127.0.0.1:1" in run("history").err


def test_a_store_alone_has_a_namespace(shop, monkeypatch):
    assert run("run-now", "sync").status == 0
    url = "sqlite:///jobs.db"
    assert "web-1" in run("history", "--backend", url).out
    assert run("history", "--backend", url, "--namespace", "other").out == "no runs\n"
    monkeypatch.setenv("ANARCHON_NAMESPACE", "other")
    assert run("history", "--backend", url).out == "no runs\n"
    assert "web-1" in run("history").out  # of the app, which has its own


@pytest.mark.parametrize(
    "words",
    [[name] for name in ("history", "pause", "resume", "tail", "export", "doctor")]
    + [[name, "a", "0"] for name in ("explain", "cancel")]
    + [["trigger", "a"]],
)
def test_without_a_store(words):
    assert refused(*words) == NO_STORE


BACKFILL = ["backfill", "sync", "--from", "0", "--to", "1"]


@pytest.mark.parametrize("words", [["jobs"], ["run"], ["run-now", "sync"], BACKFILL])
@pytest.mark.parametrize("more", [[], ["--backend", "sqlite:///jobs.db"]])
def test_without_the_code(folder, words, more):
    assert refused(*words, *more) == NO_APP


def test_why_a_slot_has_no_record_needs_the_code(folder):
    told = refused("explain", "sync", "2026-12-01 09:00", "--backend", "sqlite:///jobs.db")
    assert told == (
        "job 'sync' has no record of this slot in the store; why, can only be told where the job"
        " is defined: give --app module:scheduler"
    )


def test_options_that_contradict_each_other():
    both = ("--app", "shop:scheduler", "--backend", DOWN)
    said = "--app and --backend: give one of them; the app has its own store"
    assert refused("history", *both) == said
    said = "--namespace is for --backend; the app's own store has one already"
    assert refused("history", "--app", "shop:scheduler", "--namespace", "a") == said


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("shop", "'shop' names no scheduler; write \"module:attribute\""),
        ("shp:scheduler", "there is no module 'shp' for 'shp:scheduler'; run this in the folder"),
        ("shop.more:scheduler", "there is no module 'shop.more' for 'shop.more:scheduler'"),
        ("shop:schedulr", "shop has no 'schedulr'; name what the scheduler was assigned to"),
        ("shop:create", "shop:create is a function; to call it, write shop:create()"),
        ("shop:scheduler()", "shop:scheduler is no function; write it without ()"),
        ("shop:Scheduler", "is no scheduler; give the object that Scheduler(...) made"),
        ("shop:__name__", "'shop' is no scheduler"),
        ("shop:late", "shop:late is a function; to call it, write shop:late()"),
        ("shop:other", "is no scheduler; give the object that Scheduler(...) made"),
    ],
)
def test_an_app_that_is_not_there(folder, app, said):
    assert said in refused("jobs", "--app", app)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "broken can't be imported: ZeroDivisionError: division by zero, at line 1 of {}"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere', at line 1 of {}"),
        ("\nfrom shop import nothing", "ImportError: cannot import name 'nothing' from 'shop'"),
        ("def", "broken can't be imported: SyntaxError: invalid syntax (broken.py, line 1)"),
        ("raise SystemExit(3)", "broken can't be imported: SystemExit: 3, at line 1 of {}"),
        ("import json\njson.loads('{')", "line 1 column 2 (char 1), at line 2 of {}"),
        (
            "from shop import scheduler\nscheduler.every('sync', '1h', lambda: None)",
            "ConfigurationError: job 'sync': there is one of this name already",
        ),
    ],
)
def test_an_app_that_can_not_be_imported(folder, text, said):
    (folder / "broken.py").write_text(text)
    assert said.format(folder / "broken.py") in refused("jobs", "--app", "broken:scheduler")


def test_a_call_that_fails(folder):
    (folder / "broken.py").write_text("def create():\n    raise OSError('no\\nsettings')\n")
    said = f"--app: broken:create() failed: OSError: no settings, at line 2 of {folder}/broken.py"
    assert refused("jobs", "--app", "broken:create()") == said


def test_an_app_that_starts_or_prints_when_it_is_imported(folder):
    (folder / "program.py").write_text(
        "from shop import scheduler\n"
        "print('hello')\n"
        "scheduler.start(retry=True)\n"
        "with scheduler: pass\n"
        "scheduler.run()\n"
        "state = scheduler.state\n"
    )
    status, out, err = run("jobs", "--app", "program:scheduler", "--json")
    assert (status, err) == (0, "hello\n")
    assert len(json.loads(out)["jobs"]) == 2
    assert sys.modules["program"].state == "idle"
    assert not (folder / "jobs.db").exists()
    status, out, _ = run("doctor", "--app", "program:scheduler", "--json")
    assert status == 0  # it is imported already, and not again
    del sys.modules["program"]
    status, out, _ = run("doctor", "--app", "program:scheduler", "--json")
    names = {finding["name"] for finding in json.loads(out)["findings"]}
    assert (status, names > {"starts-at-import", "runs-at-import"}) == (1, True)
    with sys.modules["program"].scheduler as scheduler:  # that was for the import alone
        assert scheduler.state == "running"


@pytest.mark.parametrize("url", ["mysql://:hunter2@host", "postgresql://u:hunter2@host:port/x"])
def test_an_address_that_can_not_be_meant_shows_no_password(url):
    told = refused("history", "--backend", url)
    assert told.startswith("--backend: ")
    assert "hunter2" not in told


def test_a_store_that_is_down_has_status_1_and_shows_no_password():
    for words in (["history"], ["pause"], ["cancel", "a", "0"], ["tail"], ["export"]):
        status, out, err = run(*words, "--backend", DOWN)
        assert (status, out) == (1, "")
        assert err.startswith(f"anarchon {words[0]}: Redis at redis://127.0.0.1:1/0 can't be asked")
        assert err.count("\n") == 1
        assert "hunter2" not in err


@pytest.mark.parametrize("words", [["history"], ["history", "sync", "--json"], ["export"]])
def test_a_file_that_is_not_there_yet_is_said(folder, words):
    status, out, err = run(*words, "--backend", "sqlite:///none.db")
    assert status == 0
    assert out in ("no runs\n", "", '{\n  "runs": []\n}\n')
    assert err.startswith(f"anarchon {words[0]}: <SqliteBackend ")
    assert err.endswith(
        "none.db' namespace='anarchon'>: there is no such file yet; the first start() makes it\n"
    )
    assert err.count("\n") == 1
    assert not (folder / "none.db").exists()


@pytest.mark.parametrize("command", ["tail", "export", "history"])
def test_a_misspelled_job_is_refused(shop, command):
    assert "no job 'snyc' on this scheduler; did you mean 'sync'?" in refused(command, "snyc")


def test_a_number_of_records_that_can_not_be_meant_is_that_of_its_option(shop):
    for number in ("0", "1001"):
        told = run("history", "-n", number)
        assert told.status == 2
        assert f"'-n' / '--limit': {number} is not in the range 1<=x<=1000" in told.err


@pytest.mark.parametrize("zone", [None, "Europe/Athens"])
def test_what_is_no_slot_says_how_it_would_be_read(shop, zone):
    words = () if zone is None else ("--timezone", zone)
    said = f"(without an offset it is in {zone or 'UTC'})"
    assert said in refused("cancel", "sync", "yesterday", *words)


FLASK = """
from flask import Flask
from anarchon.contrib.flask import Anarchon

class Shop(Flask): ...

def create_app():
    app = Shop("shop")
    app.config["ANARCHON_BACKEND"] = "sqlite:///jobs.db"
    Anarchon(app).every("sync", "1h", lambda: None)
    return app

app = create_app()
bare = Flask("bare")
"""


@pytest.mark.parametrize("app", ["site_of:app", "site_of:create_app()"])
def test_the_scheduler_of_a_flask_app_is_found_in_it(folder, app):
    pytest.importorskip("flask")
    (folder / "site_of.py").write_text(FLASK)
    assert jobs_of("--app", app) == ["sync"]


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("site_of:bare", "--app: site_of:bare is a Flask app without a scheduler; give it one"),
        ("site_of:app()", "--app: site_of:app is no function; write it without ()"),
        ("site_of:create_app", "is a function; to call it, write site_of:create_app()"),
    ],
)
def test_a_flask_app_without_a_scheduler_is_no_function(folder, app, said):
    pytest.importorskip("flask")
    (folder / "site_of.py").write_text(FLASK)
    assert said in refused("jobs", "--app", app)


def test_the_handler_of_a_django_project_says_where_its_commands_are(folder):
    pytest.importorskip("django")
    (folder / "site_of.py").write_text(
        "from django.core.handlers.base import BaseHandler\n"
        "class Handler(BaseHandler):\n"
        "    def __call__(self): ...\n"
        "application = Handler()\n"
    )
    told = refused("jobs", "--app", "site_of:application")
    assert told == (
        "--app: site_of:application is the handler of a Django project, whose commands are those of"
        " python manage.py anarchon"
    )
