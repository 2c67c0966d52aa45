"""Runs that the fleet is asked for by a command, on a store of each kind."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime

import pytest

from anarchon import MemoryBackend, RedisBackend, Scheduler, _commands
from anarchon.testing import ClaimOnly, ManualClock
from tests.commands.stores import STORES, store_on

NOON = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)
TRIGGERED, BACKFILLED = r"trigger-[0-9a-f]{16}", r"backfill-[0-9a-f]{12}"
FROM, TO = "2026-12-01T08:30Z", "2026-12-01 10:00"
DUE = (
    "it is taken with the fleet's next claim, at the latest when the next slot of its jobs is due,"
)


@pytest.fixture(params=STORES)
def store(request, shared_server, tmp_path):
    with store_on(request.param, shared_server, tmp_path) as one:
        yield one


def test_another_process_is_asked_for_runs(store):
    ran, done = [], threading.Event()

    def handler(ctx):
        ran.append((ctx.slot, ctx.reason, ctx.data))
        if len(ran) == 3:
            done.set()

    service = store.scheduler(control="200ms", catch_up=0, data="its own")
    service.every("sync", "1h", handler)
    operator, stranger = store.scheduler(), store.scheduler()
    operator.every("sync", "1h", lambda: None)
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    hour = 3_600_000
    older, newer = (now_ms // hour * hour - back * hour for back in (2, 1))
    with service:
        answer = _commands.trigger(stranger, "sync", data_json='{"day": 1}')
        assert answer.status == 0
        assert re.fullmatch(TRIGGERED, answer.data["run_id"])
        while not ran:
            continue
        told = _commands.backfill(operator, "sync", first=str(older), last=str(newer))
        assert done.wait(20)
        while len(_commands.history(operator, "sync", status="success").rows) < 3:
            continue
    assert ran[0][1:] == ("manual", {"day": 1})
    assert ran[1:] == [(older, "catch-up", "its own"), (newer, "catch-up", "its own")]
    runs = {run.run_id: run.slot for run in _commands.history(stranger, "sync").rows}
    asked = {one["run_id"]: one["slot"] for one in told.data["runs"]}
    assert runs == {**asked, answer.data["run_id"]: ran[0][0]}
    [told] = _commands.explain(operator, "sync", str(older)).rows
    assert told.text.partition("\n")[0].endswith("; backfilled: success")


# --- what is the same on every store ---


def operator(backend=None, **options) -> Scheduler:
    made = Scheduler(backend or MemoryBackend(), **options)
    made.every("sync", "1h", lambda: None)
    made.every("off", "1h", lambda: None, enabled=False)
    made.once("over", "2026-01-01T00:00:00Z", lambda: None)
    ManualClock(NOON).attach(made)
    return made


def test_when_a_triggered_run_is_taken_is_told_as_far_as_it_is_known():
    answer = _commands.trigger(operator(), "sync")
    run_id, what, when = answer.text.split("\n")
    assert run_id == answer.data["run_id"]
    assert what == "sync is to run once, on any instance that has it"
    assert when == f"{DUE} 2026-12-01T13:00:00.000Z; or by control"
    slot = 1_796_130_000_000
    assert answer.data == {
        "job": "sync",
        "run_id": run_id,
        "next_slot": slot,
        "control_ms": None,
    }
    answer = _commands.trigger(operator(control="5s"), "sync")
    assert answer.text.endswith("\nit is taken within 5s, by control")
    assert (answer.data["next_slot"], answer.data["control_ms"]) == (slot, 5000)
    when = _commands.trigger(operator(), "over").text.split("\n")[2]
    assert when == f"{DUE} 2026-12-01T13:00:00.000Z; or by control"  # with a claim of another job
    alone = Scheduler(MemoryBackend()).once("over", "2026-01-01T00:00:00Z", lambda: None)
    assert _commands.trigger(alone, "over").text.endswith(
        "\nit is taken when an instance starts, or by control: no job has any more slots"
    )
    assert _commands.trigger(operator(), "off").text.endswith(
        "\nit is taken by no instance like this: the job is defined with enabled=False here"
    )
    answer = _commands.trigger(Scheduler(MemoryBackend(), control="5s"), "sync")
    assert answer.text.split("\n")[1:] == [
        (
            "sync is to run once, on any instance that has it; the store has no record of a job of"
            " this name"
        ),
        "it is taken with the next claim of an instance that has the job, or by its control",
    ]
    assert (answer.data["next_slot"], answer.data["control_ms"]) == (None, None)


def test_which_slots_are_backfilled_and_where_to_go_on():
    answer = _commands.backfill(operator(), "sync", first=FROM, last=TO)
    *run_ids, what, when = answer.text.split("\n")
    call = re.fullmatch(rf"({BACKFILLED})-1", run_ids[0])[1]
    assert run_ids == [f"{call}-1", f"{call}-2"]
    assert what == (
        "sync: 2 slots, from 2026-12-01T09:00:00.000Z to 2026-12-01T10:00:00.000Z, are to run one"
        " after another, on instances that have the job"
    )
    assert when == f"{DUE} 2026-12-01T13:00:00.000Z; or by control"
    assert answer.data["runs"][1] == {
        "run_id": f"{call}-2",
        "slot": 1_796_119_200_000,
        "scheduled_at": "2026-12-01T10:00:00+00:00",
    }
    assert answer.data["go_on_from"] is None
    answer = _commands.backfill(operator(), "sync", first=FROM, last=TO, limit=1)
    *_, what, _, more = answer.text.split("\n")
    assert what.startswith("sync: 1 slot, from 2026-12-01T09:00:00.000Z to 2026-12-01T09:00:00.000")
    assert more == "there are more: go on with --from 2026-12-01T10:00:00.000Z"
    assert answer.data["go_on_from"] == 1_796_119_200_000
    # A bound that is a slot is one of them, and so is none that comes.
    answer = _commands.backfill(operator(), "sync", first="2026-12-01T12:00Z", last="2027-01-01")
    assert [run["slot"] for run in answer.data["runs"]] == [1_796_126_400_000]
    assert "there are more" not in answer.text
    assert len(_commands.backfill(operator(), "sync", first="0", last=TO).data["runs"]) == 100


def test_times_without_an_offset_are_in_a_zone():
    answer = _commands.backfill(
        operator(), "sync", first="2026-12-01T10:30", last="2026-12-01T11:30", zone="Europe/Athens"
    )
    assert [run["slot"] for run in answer.data["runs"]] == [1_796_115_600_000]


def test_where_no_slot_was_due_nothing_is_asked_for():
    answer = _commands.backfill(
        operator(), "sync", first="2026-12-01T08:30", last="2026-12-01T08:59"
    )
    assert (answer.status, answer.text) == (
        1,
        (
            "sync: no slot was due from 2026-12-01T08:30:00.000Z to 2026-12-01T08:59:00.000Z, so"
            " none is asked for"
        ),
    )
    assert answer.data == {"job": "sync", "runs": [], "go_on_from": None}


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: _commands.trigger(s, "snyc"), "did you mean 'sync'?"),
        (lambda s: _commands.trigger(s, "sync", data_json="{"), "the data '{' is no JSON"),
        (lambda s: _commands.trigger(s, "sync", data_json="NaN"), "is no JSON"),
        (lambda s: _commands.backfill(s, "snyc", first="0", last="1"), "did you mean 'sync'?"),
        (lambda s: _commands.backfill(s, "sync", first="soon", last="1"), "--from: 'soon' is no"),
        (lambda s: _commands.backfill(s, "sync", first="0", last="soon"), "--to: 'soon' is no in"),
        (lambda s: _commands.backfill(s, "sync", first="1", last="0"), "end lies before its start"),
        (
            lambda s: _commands.backfill(s, "sync", first="0", last="1", zone="Mars"),
            "no zone 'Mars'",
        ),
    ],
)
def test_what_can_not_be_meant_has_status_2(ask, said):
    answer = ask(operator())
    assert (answer.status, answer.text) == (2, "")
    assert said in answer.error


ORDERS = {
    "trigger": lambda s: _commands.trigger(s, "sync"),
    "backfill": lambda s: _commands.backfill(s, "sync", first=FROM, last=TO),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_store_without_leases_says_what_it_can_not(order):
    answer = ORDERS[order](operator(ClaimOnly(MemoryBackend())))
    assert answer.status == 2
    assert "keeps no leases" in answer.error


@pytest.mark.parametrize("order", ORDERS)
def test_a_store_that_is_down_has_status_1(order):
    answer = ORDERS[order](operator(RedisBackend("redis://:hunter2@127.0.0.1:1/0")))
    assert answer.status == 1
    assert answer.error.startswith("Redis at redis://127.0.0.1:1/0 can't be asked")
    assert "hunter2" not in answer.error
