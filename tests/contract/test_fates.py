"""What became of a slot, on every store and in every view: one table of fates."""

from __future__ import annotations

from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from anarchon import Scheduler, _commands
from anarchon._testing_contract.bench import Bench, HandClock
from anarchon._values import instant, moment
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.sqlite import SqliteBackend
from anarchon.web import dashboard
from tests.contract import fates, fates_ordered
from tests.contract.fates import HOUR, LEASE
from tests.contract.test_redis import namespace
from tests.stores import postgres_clock, redis_clock
from tests.stores.postgres_clock import TableClock
from tests.stores.redis_clock import KeptClock
from tests.web.client import Browser


def nothing_to_do():
    pass


@contextmanager
def a_memory(request):
    backend = MemoryBackend()
    backend._time = clock = HandClock()
    yield backend, clock


@contextmanager
def a_file(request):
    folder = request.getfixturevalue("tmp_path")
    backend = SqliteBackend(folder / "jobs.db", synchronous="NORMAL")
    backend._time = clock = HandClock()
    yield backend, clock


@contextmanager
def a_redis(request):
    server = request.getfixturevalue("shared_server")("redis-8.2")
    with closing(KeptClock(server)) as clock:
        yield redis_clock.ByHand(server.url, clock=clock, namespace=namespace()), clock


@contextmanager
def a_postgres(request):
    database = request.getfixturevalue("database")
    with closing(TableClock(database)) as clock:
        yield postgres_clock.ByHand(database.url, clock=clock, namespace=namespace()), clock


STORES = {"memory": a_memory, "sqlite": a_file, "redis": a_redis, "postgres": a_postgres}


@pytest.fixture(params=STORES)
def bench(request):
    """Have each store in turn, on a clock that is moved by hand."""
    with STORES[request.param](request) as (backend, clock), closing(backend):
        yield Bench(backend, clock, LEASE)


@pytest.fixture
def scheduler(bench):
    """Ask as a scheduler does that isn't running."""
    scheduler = Scheduler(bench.backend)
    scheduler._clock = SimpleNamespace(wall=lambda: bench.now_ms() / 1000)
    scheduler.every("job", "10s", nothing_to_do)
    yield scheduler
    assert scheduler.state == "idle"


def check_history(bench, told):
    """The attempts are those of history."""
    about = told.runs[0].slot if told.runs else told.slot  # a record may stand for earlier slots
    own = [run for run in bench.history() if run.slot == about]
    scheduled = [run for run in own if not run.manual]
    backfills = [run for run in bench.history() if run.run_id.startswith("backfill-")]
    others = [run for run in own if run not in backfills]
    assert list(told.runs) == (scheduled or others)[::-1]
    assert sorted(told.backfills, key=repr) == sorted(backfills, key=repr)
    assert {run.status for run in told.runs[-1:]} <= {told.outcome}


def check_command(scheduler, told):
    """The command line says the same, to people and to programs."""
    answer = _commands.explain(scheduler, told.job, str(told.slot))
    assert (answer.status, answer.text, answer.data) == (0, str(told), told.to_dict())


def check_page(scheduler, told, head):
    """The dashboard shows the outcome, the reason, and each attempt with how it ended."""
    answer = Browser(dashboard(scheduler)).get(f"/run?name={told.job}&slot={told.slot}")
    assert answer.status == 200
    page = answer.page
    assert told.outcome in page.text
    assert told.text.partition("\n")[0].partition(f": {told.outcome}")[2].strip(": ;,") in page.text
    shown = [given for tag, given in page.tags if tag == "li" and "data-attempt" in given]
    found = [(given["data-attempt"], given["data-status"]) for given in shown]
    runs = told.runs + told.backfills
    assert found == [(str(run.attempt), run.status) for run in runs]
    for run in runs:
        assert (run.error or "").split("\n")[0] in page.text


TABLE = fates.TABLE + fates_ordered.TABLE


@pytest.mark.parametrize(
    ("scene", "outcome", "text"), TABLE, ids=[row[0].__name__ for row in TABLE]
)
def test_a_fate(bench, scheduler, scene, outcome, text):
    scene(bench)
    told = scheduler.explain("job", bench.key(0).slot_ms)
    slots = {str(n): moment(instant(bench.key(n).slot_ms)) for n in (*range(-30, 70, 10), 1)}
    lines = [f"job @ {slots['0']}: {text[0]}", *text[1:]]
    for name, when in slots.items():
        lines = [line.replace(f"{{{name}}}", when) for line in lines]
    assert str(told).split("\n  ") == lines
    assert (told.job, told.slot, told.outcome) == ("job", bench.key(0).slot_ms, outcome)
    check_history(bench, told)
    check_command(scheduler, told)
    check_page(scheduler, told, text[0])


def test_too_late(bench, scheduler):
    slot_ms = bench.key(0).slot_ms
    scheduler.once("one", instant(slot_ms), nothing_to_do)
    bench.clock.advance(HOUR)
    assert scheduler.explain("one", slot_ms).outcome == "due"
    bench.clock.advance(1000)
    told = scheduler.explain("one", slot_ms)
    assert told.outcome == "too late"
    why = "no instance with this job asked the store within catch_up=1h after it was due"
    assert told.text.endswith(f": too late: {why}")
