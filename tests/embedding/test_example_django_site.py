"""The example of a Django site: four workers run each slot once, also while they change."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from collections import Counter
from contextlib import contextmanager

import pytest

from anarchon import Scheduler, SqliteBackend
from tests.docs.pages import ROOT
from tests.embedding.django_project import Project

EXAMPLE = ROOT / "examples" / "django_site"
STARTED, STOPPED = "] scheduler started on ", "] scheduler stopped on "


class Example(Project):
    """The example, in a folder of its own."""

    def __init__(self, folder, *, migrated: bool = True) -> None:
        ignored = shutil.ignore_patterns("*.sqlite3*", "__pycache__")
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=ignored)
        super().__init__(folder, bare=True)
        if migrated:
            self.manage("migrate", "-v", "0")

    def runs(self, name: str, status: str | None = None) -> list:
        """Return attempts of a job, oldest first."""
        reader = Scheduler(SqliteBackend(self.folder / "db.sqlite3"))
        return reader.history(name, limit=1000, status=status)[::-1]


@contextmanager
def served(folder, *words: str):
    example = Example(folder)
    more = ("-b", "127.0.0.1:{port}", "--worker-tmp-dir", ".", "--no-control-socket")
    command = ["-m", "gunicorn", "-w", "4", *words, *more, "config.wsgi:application"]
    server = example.run(*command)
    try:
        server.wait_for(lambda: len(said(server, STARTED)) == 4, "four schedulers")
        yield example, server
    finally:
        example.clean_up()


def said(server, words: str) -> list[int]:
    """Return the processes of which the log says this."""
    lines = [line for line in server.log().splitlines() if words in line]
    return [
        int(line.partition(words)[2].split()[0].strip(",").rpartition(":")[2]) for line in lines
    ]


@pytest.mark.serial
@pytest.mark.parametrize("words", [(), ("--preload",)], ids=["", "preload"])
def test_each_slot_is_run_once_through_a_reload(tmp_path, words):
    with served(tmp_path, *words) as (example, server):
        told = json.loads(server.wait_for(lambda: server.get("/")[1], "an answer"))
        assert told["pid"] in said(server, STARTED)
        assert told["state"] == "running"
        server.wait_for(lambda: len(example.runs("order", "success")) >= 3, "three orders")
        server.send(signal.SIGHUP)
        server.wait_for(lambda: len(said(server, STARTED)) == 8, "four more schedulers")
        server.wait_for(lambda: len(said(server, STOPPED)) == 4, "four that have stopped")
        count = len(example.runs("order", "success"))
        server.wait_for(lambda: len(example.runs("order", "success")) >= count + 3, "more")
        server.send(signal.SIGTERM)
        server.end()
    assert server.pid not in said(server, STARTED)
    assert sorted(said(server, STARTED)) == sorted(said(server, STOPPED))
    runs = example.runs("order")
    assert {run.status for run in runs} <= {"success", "interrupted", "missed"}, runs
    slots = Counter(run.slot for run in runs if run.status == "success")
    assert set(slots.values()) == {1}
    # In the reload itself nobody may be there for a moment; before and after it none is left out.
    assert sum(1 for slot in slots if slot - 1000 in slots) >= 4
    told = example.said("shell", "-v", "0", "-c", ORDERS)[0]
    assert set(json.loads(told)) >= set(slots)
    assert len(json.loads(told)) == len(set(json.loads(told)))


ORDERS = "from shop.models import Order; print(list(Order.objects.values_list('slot', flat=True)))"


def test_the_commands_of_its_readme(tmp_path):
    example = Example(tmp_path)
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    commands = [shlex.split(line[2:]) for line in text.splitlines() if line.startswith("$ python")]
    assert [words[2] for words in commands if words[1] == "manage.py"] == [
        "migrate",
        "createsuperuser",
        "runserver",
    ]
    assert "no issues" in example.manage("check")
    assert "No changes detected" in example.manage("makemigrations", "--check")
    assert example.manage("anarchon", "jobs").count("\n") == 4
    assert "success" in example.manage("anarchon", "run-now", "tidy")
    assert "tidy" in example.manage("anarchon", "history")
    assert example.manage("anarchon", "history", "ship") == "no runs\n"


# --- its own tests ------------------------------------------------------------------

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
# What somebody might break in the shop, and the test of the shop that notices.
BROKEN = [
    ("        ctx.complete(connection)\n", "", "test_one_order_for_a_slot"),
    ("one.shipped_at = timezone.now()", "pass", "test_what_is_open_is_shipped"),
    ("shipped_at__lt=", "shipped_at__gt=", "test_old_orders_go"),
    ('"0 4 * * *"', '"0 5 * * *"', "test_it_is_due_at_four"),
    ('"ship", "10s"', '"ship", "20s"', "test_orders_are_shipped_every_ten_seconds"),
]


@pytest.mark.parametrize(
    ("program", "told"),
    [(("manage.py", "test"), "Ran 7 tests"), (PYTEST, "7 passed")],
    ids=["django", "pytest"],
)
def test_its_own_tests_pass(tmp_path, program, told):
    assert told in Example(tmp_path, migrated=False).manage(program=program)


def test_its_own_tests_notice_what_is_broken(tmp_path):
    example = Example(tmp_path, migrated=False)
    jobs = tmp_path / "shop" / "jobs.py"
    text = jobs.read_text(encoding="utf-8")
    for old, new, _ in BROKEN:
        assert old in text
        text = text.replace(old, new)
    jobs.write_text(text, encoding="utf-8")
    _, told = example.said("test", code=1)
    assert [named for *_, named in BROKEN if f": {named}" not in told] == []
