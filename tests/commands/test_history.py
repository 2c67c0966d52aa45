"""Records as they come, and all of them: the order, the pages, and what is told once."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count

import pytest

from anarchon import MemoryBackend, Scheduler, _commands_history
from anarchon._commands_history import Following, export, tail
from anarchon._runs import Run
from anarchon._values import instant
from anarchon.errors import BackendUnavailable
from tests.commands.stores import STORES, Waiting, store_on


class Ended(Exception):
    """Ctrl-C, as a rest between two looks sees it."""


def rests(*steps):
    """Return a rest that does one step each time, and then ends."""
    left = iter(steps)

    def rest():
        try:
            step = next(left)
        except StopIteration:
            raise Ended from None
        step()

    return rest


def followed(scheduler, *steps, name=None, **options):
    """Return what a tail tells, and what it says aside."""
    told, said = [], []
    with pytest.raises(Ended):
        tail(scheduler, told.append, name, say=said.append, rest=rests(*steps), **options)
    return told, said


def record(number: int, job: str = "sync", attempt: int = 1, status="success", **more) -> Run:
    at = instant(number * 1000)
    return Run(f"{job}@{number}", job, number * 1000, at, attempt, status, **more)


class Records(MemoryBackend):
    """A store whose history is a list, to which a test adds."""

    def __init__(self, *runs: Run) -> None:
        super().__init__()
        self.runs, self.asked, self.down = list(runs), [], False

    def put(self, run: Run):
        """Return a step that adds a record, or puts it in place of an earlier one."""

        def step():
            keys = [(one.run_id, one.attempt) for one in self.runs]
            if (run.run_id, run.attempt) in keys:
                self.runs[keys.index((run.run_id, run.attempt))] = run
            else:
                self.runs.append(run)

        return step

    def history(self, job, *, limit, before=None, status=None):
        if self.down:
            raise BackendUnavailable("it is down,\nfor now")
        self.asked.append((job, limit, status))
        newest = sorted(self.runs, key=lambda run: (run.slot, run.attempt), reverse=True)
        if before is not None:
            newest = newest[newest.index(before) + 1 :]
        found = [run for run in newest if job in (None, run.job) and status in (None, run.status)]
        return found[:limit]


# --- on stores ---


@pytest.mark.parametrize("variant", STORES)
def test_a_run_is_told_when_it_starts_and_when_it_ends(variant, shared_server, tmp_path):
    with store_on(variant, shared_server, tmp_path) as store:
        service, handler = store.scheduler(), Waiting()
        service.every("sync", "1h", handler)
        stranger, ends = store.scheduler(), []
        with service:
            assert handler.begun.wait(10)

            def end():
                handler.go.set()
                while stranger.last_run("sync").status == "running":
                    continue
                assert service.run_now("sync").status == "success"

            told, said = followed(stranger, lambda: None, end, lambda: None)
            export(stranger, ends.append)
        assert [(run.status, run.manual) for run in told] == [
            ("running", False),
            ("success", False),
            ("success", True),
        ]
        assert said == []
        lines = [json.loads(line) for line in ends]
        assert lines == [run.to_dict() for run in reversed(told[1:])]


# --- on a list ---


def test_the_last_ones_come_first_and_in_the_order_of_time():
    store = Records(*map(record, range(1, 50)), record(50, status="failed"))
    told, _ = followed(Scheduler(store), last=3)
    assert [run.slot for run in told] == [48_000, 49_000, 50_000]
    assert followed(Scheduler(store), last=0) == ([], [])
    told, _ = followed(Scheduler(store), last=1000, status="failed")
    assert [run.slot for run in told] == [50_000]


def test_each_record_is_told_once_and_again_when_it_changes():
    store = Records(record(1))
    told, _ = followed(
        Scheduler(store),
        store.put(record(2, status="running")),
        lambda: None,
        store.put(record(3)),
        store.put(record(2, status="interrupted", detail="handed over")),
        store.put(record(2, attempt=2, status="running")),
        store.put(record(2, attempt=2)),
        lambda: None,
    )
    assert [(run.slot // 1000, run.attempt, run.status) for run in told] == [
        (1, 1, "success"),
        (2, 1, "running"),
        (3, 1, "success"),
        (2, 1, "interrupted"),
        (2, 2, "running"),
        (2, 2, "success"),
    ]


def test_of_one_status_only_that_is_told():
    store = Records()
    steps = [store.put(record(1, status="running")), store.put(record(1, status="failed"))]
    steps += [store.put(record(2))]
    told, _ = followed(Scheduler(store), *steps, status="failed")
    assert [run.slot for run in told] == [1000]


def test_an_old_run_that_goes_on_is_told_however_many_records_came_after_it():
    store = Records(record(1, "slow", status="running"), *map(record, range(2, 3000)))
    store.runs.append(record(0, "slow"))  # too old to be news
    told, _ = followed(
        Scheduler(store),
        lambda: None,
        store.put(record(1, "slow", status="lost")),
        store.put(record(1, "slow", attempt=2, status="running")),
        store.put(record(1, "slow", attempt=2)),
        last=0,
    )
    # The second attempt belongs to no run that is known to go on: it is found by its status.
    assert [(run.attempt, run.status) for run in told] == [(1, "lost")]
    store.put(record(1, "slow", status="running"))()
    following = Following(Scheduler(store), None)
    following.first()
    store.put(record(1, "slow", status="lost"))()
    store.put(record(1, "slow", attempt=2, status="running"))()
    assert [(run.attempt, run.status) for run in following.news()] == [(1, "lost"), (2, "running")]
    store.put(record(1, "slow", attempt=2))()
    assert [(run.attempt, run.status) for run in following.news()] == [(2, "success")]


def test_an_old_slot_that_begins_is_found_by_its_status(monkeypatch):
    monkeypatch.setattr(_commands_history, "_RARELY", 3)
    store = Records(*map(record, range(2, 3000)))
    following = Following(Scheduler(store), None)
    following.first()
    store.put(record(1, "late", status="running"))()
    store.asked.clear()
    assert [len(following.news()) for _ in range(4)] == [0, 0, 1, 0]
    assert [status for _, _, status in store.asked].count("running") == 1


def test_old_runs_of_many_jobs_are_asked_for_in_turns():
    store = Records(*map(record, range(100, 3000)))
    names = [f"job-{number}" for number in range(50)]
    store.runs += [record(number, names[number], status="running") for number in range(50)]
    following = Following(Scheduler(store), None)
    following.first()
    for number in (0, 30, 49):  # the others go on
        store.put(record(number, names[number]))()
        told = []
        for _ in range(4):
            store.asked.clear()
            told += [run.job for run in following.news()]
            assert len(store.asked) == 21
        assert told == [names[number]]


def test_a_run_on_the_first_page_is_asked_for_by_nothing_else():
    store = Records(*map(record, range(1, 3000)), record(3000, status="running"))
    following = Following(Scheduler(store), None)
    following.first()
    store.asked.clear()
    assert following.news() == []
    assert store.asked == [(None, 100, None)]


def test_an_old_run_that_history_forgot_is_not_asked_for_again():
    store = Records(record(1, "slow", status="running"), *map(record, range(2, 3000)))
    following = Following(Scheduler(store), None)
    following.first()
    del store.runs[0]
    assert following.news() == []
    store.asked.clear()
    assert following.news() == []
    assert store.asked == [(None, 100, None)]


def test_many_new_records_are_read_in_pages_and_old_ones_never():
    store = Records(*map(record, range(1, 2001)))
    following = Following(Scheduler(store), None)
    assert len(following.first()) == 1000
    store.runs += map(record, range(2001, 2351))
    assert [run.slot for run in following.news()] == [n * 1000 for n in range(2001, 2351)]
    assert following.news() == []


def test_a_look_is_bounded_and_so_is_what_is_remembered(monkeypatch):
    monkeypatch.setattr(_commands_history, "_MOST_SEEN", 500)
    numbers = count(1)
    store = Records(record(next(numbers), "slow", status="running"))
    following = Following(Scheduler(store), None)
    following.first()
    told = 0
    for _ in range(40):
        store.runs += [record(next(numbers)) for _ in range(150)]
        store.asked.clear()
        told += len(following.news())
        assert len(store.asked) <= 13
        assert len(following._seen) <= 500
    assert told == 40 * 150
    store.runs += [record(next(numbers)) for _ in range(5000)]
    store.asked.clear()
    assert len(following.news()) == 1000
    assert len(store.asked) == 11  # ten pages, and a job
    store.put(record(1, "slow"))()
    assert following.news()[0].job == "slow"


def test_an_outage_is_said_once_and_survived():
    store = Records(record(1))

    def down():
        store.down = True

    def up():
        store.down = False
        store.put(record(2))()

    told, said = followed(Scheduler(store), down, lambda: None, lambda: None, up, lambda: None)
    assert [run.slot for run in told] == [1000, 2000]
    assert said == ["waiting for the store: it is down, for now", "the store is there again"]


def test_a_store_that_is_down_from_the_beginning_is_an_answer():
    store = Records()
    store.down = True
    scheduler = Scheduler(store)
    for answer in (
        tail(scheduler, print, say=print, rest=print),
        export(scheduler, print),
    ):
        assert (answer.status, answer.error) == (1, "it is down, for now")


def test_an_export_reads_pages_and_keeps_none(monkeypatch):
    monkeypatch.setattr(_commands_history, "_EXPORTED", 10)
    store = Records(*map(record, range(1, 31)), record(31, "other", status="failed"))
    lines = []
    assert export(Scheduler(store), lines.append) == (0, "", None, (), None, None, "")
    assert [json.loads(line)["slot"] for line in lines] == [n * 1000 for n in range(31, 0, -1)]
    assert {limit for _, limit, _ in store.asked} == {10}
    for one in ({"name": "other"}, {"status": "failed"}):
        lines.clear()
        export(Scheduler(store), lines.append, **one)
        assert len(lines) == 1
    at = json.loads(lines[0])["scheduled_at"]
    assert at == (instant(0) + timedelta(seconds=31)).isoformat()


@pytest.mark.parametrize("name", ["snyc", "sync", "old"])
def test_a_job_that_nobody_knows_is_refused_where_jobs_are_defined(name):
    scheduler = Scheduler(Records(record(1, "old")))
    scheduler.every("sync", "1h", lambda: None)
    lines = []
    if name == "snyc":
        for answer in (
            tail(scheduler, print, name, say=print, rest=print),
            export(scheduler, print, name, status="failed"),
        ):
            assert answer.status == 2
            assert "no job 'snyc'" in answer.error
            assert "did you mean 'sync'?" in answer.error
        return
    assert followed(scheduler, name=name)[1] == []
    assert export(scheduler, lines.append, name).note == ""
    assert len(lines) == (name == "old")


def test_a_store_alone_says_that_it_has_nothing_of_a_job():
    scheduler = Scheduler(Records(record(1)))
    note = "the store has no record of a job 'snyc'"
    assert followed(scheduler, name="snyc") == ([], [note])
    answer = export(scheduler, print, "snyc")
    assert (answer.status, answer.note) == (0, note)
