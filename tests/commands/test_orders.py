"""What became of slots, and what is ordered of a whole fleet, on a store of each kind."""

from __future__ import annotations

import pytest

from anarchon import MemoryBackend, RedisBackend, Scheduler, _commands
from anarchon._commands_slots import read_slot
from anarchon._values import instant, moment
from anarchon.errors import ConfigurationError
from anarchon.testing import ClaimOnly
from tests.commands.stores import STORES, Waiting, store_on


@pytest.fixture(params=STORES)
def store(request, shared_server, tmp_path):
    with store_on(request.param, shared_server, tmp_path) as one:
        yield one


@pytest.fixture
def operator(store) -> Scheduler:
    """The scheduler of a command line: it has the jobs, and doesn't run."""
    made = store.scheduler()
    made.every("sync", "1h", lambda: None)
    made.every("report", "1h", lambda: None)
    return made


def paused(answer) -> list[tuple[str, bool | None]]:
    return [(row.job.name, row.paused) for row in answer.rows]


def test_a_run_is_explained_and_cancelled_from_elsewhere(store, operator):
    service, handler = store.scheduler(), Waiting()
    service.every("sync", "1h", handler)
    stranger = store.scheduler()  # on the store alone
    with service:
        assert handler.begun.wait(10)
        slot = str(handler.slot)
        run = f"sync @ {moment(instant(handler.slot))}"
        told = _commands.explain(stranger, "sync", slot)
        assert (told.status, told.data["outcome"]) == (0, "running")
        assert told.text.startswith(f"{run}: running: on ")
        answer = _commands.cancel(stranger, "sync", slot)
        assert (answer.status, answer.data) == (
            0,
            {"job": "sync", "slot": handler.slot, "cancelled": True},
        )
        assert answer.text == f"{run}: cancelled; where it runs, it is told at its next heartbeat"
        while not (ended := _commands.history(operator, "sync", status="interrupted").rows):
            continue
    assert (handler.aborted, ended[0].detail) == ("cancel", "cancelled")
    told = _commands.explain(operator, "sync", moment(instant(handler.slot)))
    assert told.data["outcome"] == "interrupted"
    again = _commands.cancel(operator, "sync", slot)
    assert (again.status, again.text, again.error) == (1, f"{run}: no such run is open", None)
    table = _commands.history(stranger, "sync", zone="Europe/Athens")
    assert "  in Europe/Athens  " in table.text.splitlines()[0]
    assert "+0" in table.data["runs"][0]["local"]


def test_pauses_are_set_shown_and_ended(store, operator):
    assert paused(_commands.jobs(operator)) == [("sync", False), ("report", False)]
    answer = _commands.pause(store.scheduler(), "sync", duration="1h30m")
    said = "sync is paused on every instance, for 1h30m; the store has no record of a job of this"
    assert (answer.status, answer.text) == (0, f"{said} name")
    assert answer.data == {"job": "sync", "paused": True, "duration_ms": 5_400_000}
    listed = _commands.jobs(operator)
    assert paused(listed) == [("sync", True), ("report", False)]
    assert [job["paused"] for job in listed.data["jobs"]] == [True, False]
    assert not listed.data["all_paused"]
    answer = _commands.pause(operator)
    assert answer.text == "every job is paused on every instance, until it is resumed"
    listed = _commands.jobs(operator)
    assert paused(listed) == [("sync", True), ("report", True)]
    assert listed.text.splitlines()[-1] == "every job is paused"
    answer = _commands.resume(operator, "report")
    assert answer.text == (
        "report is resumed, but there is a pause of every job: resume without a name ends it"
    )
    assert answer.data == {"job": "report", "paused": True}
    answer = _commands.resume(operator)
    assert answer.text == ("the pause of every job is over; paused by themselves are still: sync")
    assert answer.data == {"job": None, "paused": False, "still_paused": ["sync"]}
    assert _commands.resume(operator, "sync").text == "sync is resumed"
    assert _commands.resume(operator).text == "the pause of every job is over"
    assert paused(_commands.jobs(operator)) == [("sync", False), ("report", False)]


def test_a_pause_for_a_time_ends_by_itself(operator):
    assert _commands.pause(operator, "sync", duration="150ms").status == 0
    while paused(_commands.jobs(operator))[0] != ("sync", False):
        continue


def test_a_pause_holds_and_is_what_a_slot_is_explained_by(store, operator):
    assert _commands.pause(operator, "sync").status == 0
    service = store.scheduler()
    service.every("sync", "1h", lambda: None)
    with service:
        while not (skipped := _commands.history(operator, "sync").rows):
            continue
    assert (skipped[0].status, skipped[0].detail) == ("skipped", "paused")
    told = _commands.explain(store.scheduler(), "sync", str(skipped[0].slot))
    assert told.text.endswith(": skipped: the job was paused")


# --- what is the same on every store ---


@pytest.fixture
def alone() -> Scheduler:
    made = Scheduler(MemoryBackend())
    made.every("sync", "1h", lambda: None)
    return made


ORDERS = {
    "pause": _commands.pause,
    "resume": _commands.resume,
    "cancel": lambda s, name: _commands.cancel(s, name, "3600000"),
    "explain": lambda s, name: _commands.explain(s, name, "3600000"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_misspelled_name_is_refused_where_the_jobs_are_known(alone, order):
    answer = ORDERS[order](alone, "snyc")
    assert (answer.status, answer.text) == (2, "")
    assert answer.error == "no job 'snyc' on this scheduler; did you mean 'sync'?"


def test_on_a_store_alone_a_name_may_be_unknown():
    store = Scheduler(MemoryBackend())
    unknown = "; the store has no record of a job of this name"
    assert _commands.pause(store, "new").text.endswith(f"until it is resumed{unknown}")
    assert _commands.resume(store, "new").text == f"new is resumed{unknown}"
    answer = _commands.cancel(store, "new", "3600000")
    assert answer.text == f"new @ 1970-01-01T01:00:00.000Z: no such run is open{unknown}"
    assert _commands.history(store, "new").text == "no runs"
    answer = _commands.explain(store, "new", "3600000")
    said = "job 'new' has no record of this slot in the store; why, can only be told where"
    assert (answer.status, answer.error) == (2, f"{said} the job is defined")


def test_why_a_slot_has_no_record_is_told_by_the_definition(alone):
    answer = _commands.explain(alone, "sync", "2026-12-01T09:30", zone="Europe/Athens")
    assert answer.status == 0
    assert answer.data["outcome"] == "no slot"
    assert answer.data["local"] == "2026-12-01T09:30:00.000+02:00"
    assert (
        answer.text.splitlines()[-1] == "  the slot is 2026-12-01 09:30:00+02:00 in Europe/Athens"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda s: _commands.pause(s, "sync", duration="soon"), "for how long: 'soon' is not a"),
        (lambda s: _commands.pause(s, "sync", duration="0s"), "too short"),
        (lambda s: _commands.explain(s, "sync", "soon"), "slot: 'soon' is no slot; give"),
        (lambda s: _commands.cancel(s, "sync", "9" * 30), "is no slot"),
        (lambda s: _commands.explain(s, "sync", "3600000", zone="Mars"), "no zone 'Mars'"),
        (lambda s: _commands.history(s, zone="Mars"), "no zone 'Mars'"),
        (lambda s: _commands.jobs(s, zone="Mars"), "no zone 'Mars'"),
    ],
)
def test_what_can_not_be_meant_has_status_2(alone, answer, said):
    got = answer(alone)
    assert got.status == 2
    assert said in got.error


@pytest.mark.parametrize(
    ("text", "zone", "slot"),
    [
        ("0", None, 0),
        ("1796115600000", None, 1796115600000),
        ("2026-12-01T09:00:00Z", None, 1796115600000),
        ("2026-12-01 09:00:00", None, 1796115600000),
        ("2026-12-01T11:00:00+02:00", "Asia/Tokyo", 1796115600000),
        ("2026-12-01 11:00", "Europe/Athens", 1796115600000),
        ("2026-12-01 09:00:00.250", None, 1796115600250),
        ("20261201", None, 1796083200000),
        ("2026-12-01", None, 1796083200000),
    ],
)
def test_slots_as_people_write_them(text, zone, slot):
    assert read_slot(text, zone) == slot


@pytest.mark.parametrize("text", ["", "-1", "1e3", "²", "12:00", "9999-01-01"])
def test_what_is_no_slot(text):
    with pytest.raises(ConfigurationError, match="is no slot"):
        read_slot(text)


def test_a_store_without_leases_says_what_it_can_not():
    scheduler = Scheduler(ClaimOnly(MemoryBackend()))
    scheduler.every("sync", "1h", lambda: None)
    answer = _commands.cancel(scheduler, "sync", "3600000")
    assert answer.status == 2
    assert "keeps no leases" in answer.error
    listed = _commands.jobs(scheduler)
    assert paused(listed) == [("sync", None)]
    assert listed.text.splitlines()[-1] == "what is paused is not known: this store can't be asked"


def test_jobs_are_listed_though_the_store_is_down():
    scheduler = Scheduler(RedisBackend("redis://:hunter2@127.0.0.1:1/0"))
    scheduler.every("sync", "1h", lambda: None)
    answer = _commands.jobs(scheduler)
    assert (answer.status, answer.data["all_paused"]) == (0, None)
    assert answer.data["problem"].startswith("Redis at redis://127.0.0.1:1/0 can't be asked")
    _, row, said = answer.text.splitlines()
    assert row.endswith("  ?")
    assert said == f"what is paused is not known: {answer.data['problem']}"
    for order in ORDERS.values():
        answer = order(scheduler, "sync")
        assert answer.status == 1
        assert "hunter2" not in answer.error
