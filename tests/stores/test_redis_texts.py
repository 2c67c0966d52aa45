"""What a Redis is given to keep: its form is a promise, for the next version has to read it."""

from __future__ import annotations

import pytest

from anarchon._values import Closed, Won, instant
from anarchon.backends._storable import FIRST_MS, LAST_MS
from anarchon.errors import BackendError
from tests.stores.redis_kept import RUN

STRANGE = "a\0\1"  # a job whose name has the bytes that separate the parts of an id
FIRST, SECOND = "a\1\1\1\2\x00063935601800000\0", "a\1\1\1\2\x00063935601801000\0"
FIRST_PLACE, SECOND_PLACE = "063935601800000\0a\1\1\1\2\0", "063935601801000\0a\1\1\1\2\0"


# --- what is written ------------------------------------------------------------------------


def test_a_run_that_runs_is_kept_so(kept):
    bench = kept.bench
    bench.clock.advance(10_000)
    bench.claim(0, job=STRANGE, budget=4, catch_up_ms=7, skip_overlap=False)
    bench.any.save(bench.lease(0, job=STRANGE), owner=bench.owner("a"), value='{"n":1}')
    bench.renew(0, job=STRANGE)
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "checkpoints", "open", "order"}
    assert kept.stored("meta") == {"format": "1"}
    assert kept.stored("jobs") == {STRANGE: "[1800005010000000,-9007199254740992,0,1,0]"}
    assert kept.stored("runs") == {
        FIRST: '["running",1,1,"a",1800005040000,30000,10000,1,1800005010000000,0,4,7,0,'
        'null,null,"",1800005010000]'
    }
    assert kept.stored("lines") == {
        f"{FIRST}\x001": '["running",null,"scheduled","instance-a",1800005010000,'
        "null,null,null,null]"
    }
    assert kept.stored("checkpoints") == {FIRST: '{"n":1}'}
    assert kept.stored("open") == {FIRST: "0"}
    assert kept.stored("order") == {FIRST_PLACE: "0"}


def test_a_slot_that_is_skipped_is_kept_so(kept):
    kept.bench.clock.advance(10_000)
    kept.bench.backend.pause(None, duration_ms=5)
    kept.bench.claim(1, job=STRANGE, by="b")
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "skips", "order"}
    assert kept.stored("meta") == {"format": "1", "paused": "1800005010005"}
    assert kept.stored("jobs") == {STRANGE: "[0,-9007199254740992,0,0,1]"}
    assert kept.stored("runs") == {
        SECOND: '["closed",1,1,"",0,0,0,0,0,0,0,0,0,"skipped","paused","b",1800005010000]'
    }
    assert kept.stored("lines") == {
        f"{SECOND}\x001": '["skipped","paused","scheduled","instance-b",null,1800005010000,'
        "null,null,null]"
    }
    assert kept.stored("skips") == {SECOND: "0"}
    assert kept.stored("order") == {SECOND_PLACE: "0"}


def test_a_run_of_two_attempts_that_ended_is_kept_so(kept):
    bench = kept.bench
    bench.claim(0, job=STRANGE, budget=4, catch_up_ms=7)
    bench.any.save(bench.lease(0, job=STRANGE), owner=bench.owner("a"), value="1")
    bench.clock.advance(3)
    bench.release(0, job=STRANGE, detail="bye")
    (waiting,) = kept.stored("runs").values()
    assert waiting == (
        '["waiting",1,1,"a",1800005000003,30000,10000,0,1800005000000000,0,4,7,0,'
        'null,null,"",1800005000003]'
    )
    bench.claim(0, wants=2, by="c", job=STRANGE)
    fields = {"status": "failed", "error": "E", "traceback": "T", "detail": "D"}
    bench.finish(0, 2, by="c", job=STRANGE, **fields)
    bench.backend.pause(STRANGE, duration_ms=None)
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "kept", "order"}
    assert kept.stored("jobs") == {
        STRANGE: "[1800005000003000,-9007199254740992,9007199254740992,2,0]"
    }
    assert kept.stored("runs") == {
        FIRST: '["closed",2,1,"c",1800005030003,30000,10000,0,1800005000003000,0,3,0,0,'
        '"failed","D","c",1800005000003]'
    }
    assert kept.stored("lines") == {
        f"{FIRST}\x001": '["interrupted","bye","scheduled","instance-a",1800005000003,'
        "1800005000008,5,null,null]",
        f"{FIRST}\x002": '["failed","D","takeover","instance-c",1800005000003,'
        '1800005000008,5,"E","T"]',
    }
    assert kept.stored("kept") == {FIRST: "0"}


def test_a_manual_run_is_kept_so(kept):
    kept.bench.manual("t\0", job="m")
    run = "m\x00063935601800000\0t\1\1"
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "kept", "order"}
    assert kept.stored("jobs") == {"m": "[0,-9007199254740992,0,1,0]"}
    assert kept.stored("runs") == {
        run: '["running",1,1,"a",1800005030000,30000,10000,0,0,0,0,0,0,null,null,"",1800005000000]'
    }
    assert kept.stored("kept") == {run: "0"}
    assert kept.stored("order") == {"063935601800000\0m\0t\1\1": "0"}


def test_a_result_whose_run_was_lost_is_kept_so(kept):
    """Of the third attempt: nobody has lines of those before it."""
    kept.bench.finish(0, 3, job="m", fence=8)
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "kept", "order"}
    assert kept.stored("jobs") == {"m": "[8,-9007199254740992,0,1,0]"}
    assert kept.stored("runs") == {
        "m\x00063935601800000\0": '["closed",3,3,"a",1800005000000,0,0,0,8,0,0,0,0,'
        '"success",null,"a",1800005000000]'
    }
    assert kept.stored("lines") == {
        "m\x00063935601800000\0\x003": '["success",null,"scheduled","instance-a",1800005000000,'
        "1800005000005,5,null,null]"
    }


# --- what is read ---------------------------------------------------------------------------

NUMBERS = [name for name in RUN if name not in ("state", "owner", "status", "detail", "by")]
LIMIT = 2**54  # the sum of a time and the longest lease; then only even numbers are exact


def is_read(kept, name, value):
    """Say whether a run is still one when a field of it is something else."""
    kept.bench.claim(0)
    kept.spoil("runs", RUN.index(name), value)
    answer = kept.bench.claim(0, by="b")
    return not (isinstance(answer, Closed) and answer.detail == "unreadable record")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in NUMBERS for value in (None, "1", 1.5, LIMIT + 4, -LIMIT - 4)),
        *(("state", value) for value in (None, 1, "odd")),
        *(("owner", value) for value in (None, 1)),
        *(("status", value) for value in (1, "odd")),
        *(("detail", value) for value in (1, True)),
        *(("by", value) for value in (None, 1)),
        *(("attempt", value) for value in (0, 100_001)),
        *(("first", value) for value in (0, -1, 2)),
        *(("lease", -1), ("heartbeat", -1)),
    ],
)
def test_what_no_version_writes_is_no_run(kept, name, value):
    assert not is_read(kept, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ends", value) for value in (LIMIT, -LIMIT, 0)),
        *((name, 0) for name in ("lease", "heartbeat", "fence", "since")),
        ("attempt", 100_000),
        *(("status", value) for value in (None, "success", "failed", "interrupted")),
        *(("status", value) for value in ("running", "skipped", "missed", "lost")),
        *(("state", value) for value in ("running", "waiting", "closed")),
        *(("detail", None), ("detail", ""), ("owner", ""), ("by", "x")),
    ],
)
def test_what_a_version_may_write_is_a_run(kept, name, value):
    assert is_read(kept, name, value)


def test_a_newer_format_is_refused(kept):
    kept.ask("HSET", kept.key["meta"], "format", 2)
    with pytest.raises(BackendError, match=r"newer anarchon \(format 2\)"):
        kept.bench.claim(0)


def test_open_runs_are_found_by_their_ids_alone(kept):
    """More of them than are read at once, of a job with a strange name and its neighbours."""
    for job in (STRANGE, "a", "a\0", "a\1", "!", "b"):
        kept.bench.claim(-100, job=job)
    for slot in range(-45, 0):
        kept.bench.claim(slot, job=STRANGE, skip_overlap=False)
    keys = [run.key for run in kept.bench.unfinished(STRANGE)]
    assert keys == [kept.bench.key(slot, STRANGE) for slot in (-100, *range(-45, 0))]
    assert [run.key for run in kept.bench.unfinished("a")] == [kept.bench.key(-100, "a")]


def test_the_first_slot_that_there_can_be_is_found(kept):
    slot = (FIRST_MS - kept.bench.start_ms) / 1000
    assert isinstance(kept.bench.claim(slot), Won)
    assert kept.bench.open_run(slot).key.slot_ms == FIRST_MS
    assert [run.slot for run in kept.bench.history(None)] == [FIRST_MS]


def test_each_run_of_a_call_is_read_once(kept):
    jobs = [f"job-{number}" for number in range(10)]
    kept.bench.claims(*(kept.bench.wish(0, job=job) for job in jobs))
    kept.ask("CONFIG", "RESETSTAT")
    kept.bench.claims(*(kept.bench.wish(0, job=job) for job in jobs), by="b")
    stats = kept.ask("INFO", "commandstats").decode()
    assert "cmdstat_hget:calls=12," in stats  # two are of meta: the format, and the pause of all


@pytest.mark.parametrize(
    ("stored", "given"),
    [(2**53 - 2, 2**53 - 1), (2**53 - 1, 2**53 - 1), (2**53, None), (-1, None), ("x", None)],
)
def test_a_fence_counts_below_its_limit(kept, stored, given):
    kept.bench.run_through(0)
    kept.spoil("jobs", 0, stored)
    assert kept.bench.claim(0.001, pace=kept.bench.pace()._replace(tolerance_ms=9)).fence == (
        given or 1000 * kept.bench.now_ms()
    )


@pytest.mark.parametrize(("floor", "kind"), [(LAST_MS, Closed), (LAST_MS + 1, Won), ("x", Won)])
def test_a_floor_counts_up_to_the_last_time(kept, floor, kind):
    kept.bench.run_through(-1)
    kept.spoil("jobs", 1, floor)
    assert isinstance(kept.bench.claim(0), kind)


@pytest.mark.parametrize(("until", "kind"), [(2**53, Closed), (2**53 + 2, Won), ("x", Won)])
def test_a_pause_counts_until_forever(kept, until, kind):
    kept.bench.run_through(-1)
    kept.spoil("jobs", 2, until)
    assert isinstance(kept.bench.claim(0), kind)


@pytest.mark.parametrize("place", [0, 2, 3, 4])
def test_what_a_job_has_never_had_is_nothing(kept, place):
    """As a number of another kind is, that somebody else wrote."""
    kept.bench.backend.pause("job", duration_ms=0)
    kept.spoil("jobs", place, "x")
    kept.bench.backend.pause(None, duration_ms=5)
    kept.bench.skip(-2, -1)
    assert kept.stored("jobs") == {"job": "[0,-9007199254740992,0,1,0]"}


# --- lines ----------------------------------------------------------------------------------

LINE = (
    *("status", "detail", "reason", "instance_id", "started_at", "finished_at", "duration"),
    *("error", "traceback"),
)


def read_line(kept, name, value):
    """Return the attempts that history tells when a field of their line is something else."""
    kept.bench.run_through(0)
    kept.spoil("lines", LINE.index(name), value)
    return kept.bench.history()


@pytest.mark.parametrize("name", ["status", "reason"])
@pytest.mark.parametrize("value", [None, 1, "odd"])
def test_a_line_that_says_nothing_is_not_told(kept, name, value):
    assert read_line(kept, name, value) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("reason", value) for value in ("scheduled", "manual", "catch-up", "takeover")),
        *(("status", value) for value in ("success", "failed", "interrupted")),
        *(("status", value) for value in ("skipped", "missed", "lost")),
        *((name, "x") for name in ("detail", "instance_id", "error", "traceback")),
    ],
)
def test_a_line_is_told_as_it_is(kept, name, value):
    (run,) = read_line(kept, name, value)
    assert getattr(run, name) == value


@pytest.mark.parametrize("name", ["started_at", "finished_at"])
@pytest.mark.parametrize("value", [FIRST_MS, LAST_MS, FIRST_MS - 1, LAST_MS + 1, 1.5, "x"])
def test_a_time_is_told_if_there_can_be_such_a_one(kept, name, value):
    (run,) = read_line(kept, name, value)
    told = instant(value) if value in (FIRST_MS, LAST_MS) else None
    assert getattr(run, name) == told


# --- trimming -------------------------------------------------------------------------------


def test_a_call_removes_a_hundred_runs_of_a_job_however_many_it_closes(kept):
    bench = kept.bench
    pace = bench.pace()._replace(tolerance_ms=10_000)
    for slot in range(9_000, 9_130):
        bench.run_through(slot / 1000, pace=pace)
    bench.clock.advance(40 * 24 * 3_600_000)
    results = []
    for slot in (40 * 24 * 3600 - 1, 40 * 24 * 3600):
        bench.claim(slot, skip_overlap=False)
        results.append(bench.result(slot))
    bench.backend.finish(results, owner=bench.owner("a"))
    assert len(bench.history()) == 32
    assert kept.stored("jobs")["job"].split(",")[3] == "32"


@pytest.mark.parametrize(("alive", "left"), [(999, 1099), (1000, 1101)])
def test_a_call_looks_for_what_to_remove_at_a_thousand_runs(kept, alive, left):
    """Manual runs that go on are passed by; with more of them nothing goes, and no call is slow."""
    bench = kept.bench
    for slot in range(-101, -1):
        bench.run_through(slot / 1000)
    key = bench.key(-10)
    results = [
        bench.result(0, key=key._replace(manual=str(number)), status="running", reason="manual")
        for number in range(alive)
    ]
    bench.backend.record_manual(results, owner=bench.owner("a"), lease_ms=30_000)
    bench.run_through(0)
    assert len(bench.history()) == left


# --- what is damaged or gone ----------------------------------------------------------------


def test_a_run_that_is_none_is_told_as_lost_with_the_lines_it_has(kept):
    kept.bench.claim(0)
    kept.bench.release(0)
    kept.bench.claim(0, wants=2)
    kept.spoil("runs", RUN.index("state"), "odd")
    answer = kept.bench.claim(0, by="b")
    assert (answer.status, answer.detail, answer.by) == ("lost", "unreadable record", "")
    assert [(row[1], row[2]) for row in kept.bench.told()] == [(2, "lost"), (1, "interrupted")]


def test_a_closed_run_is_not_open_wherever_its_id_stands(kept):
    kept.bench.claim(0)
    kept.spoil("runs", RUN.index("state"), "closed")
    assert kept.bench.unfinished() == ()


def test_the_format_is_written_again_by_whoever_finds_none(kept):
    kept.ask("DEL", kept.key["meta"])
    kept.bench.claim(0)
    assert kept.stored("meta") == {"format": "1"}


def test_a_result_that_a_call_has_twice_is_counted_once(kept):
    result = kept.bench.result(0)
    kept.bench.backend.finish([result, result], owner=kept.bench.owner("a"))
    assert kept.stored("jobs") == {"job": "[0,-9007199254740992,0,1,0]"}
