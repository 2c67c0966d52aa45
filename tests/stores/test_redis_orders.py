"""What a Redis keeps of runs that the fleet is asked for, and how little they cost."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

from anarchon._values import Closed, Limits, Owner, Pace, RunKey, Waiting, Won
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendUnavailable
from tests.servers.redis import RedisServer
from tests.stores.helpers import TERMS, now_ms, wish
from tests.stores.redis_kept import RUN

THIRTY_DAYS_MS = 30 * 24 * 3_600_000
WHEN = "063935601800000"  # the slot at which the clock stands
TRIGGER, BACKFILL = f"m\0{WHEN}\0trigger-1", f"m\0{WHEN}\0backfill-1"
PATIENT = {"catch_up_ms": 10**12, "budget": 0}


def order(kept, token, slot=0, *, job="m", data=None):
    """Ask the fleet for a run, and return its key."""
    key = kept.bench.key(slot, job)._replace(manual=token)
    kept.bench.backend.trigger([key], data=data)
    return key


def take(kept, key, wants=1, by="a", **terms):
    """Claim an ordered run."""
    wanted = kept.bench.wish(0, wants=wants, reason="manual", **{**PATIENT, **terms})
    return kept.bench.claims(wanted._replace(key=key), by=by).answers[0]


def waiting(kept, job="m"):
    return [run.key for run in kept.bench.unfinished(job) if run.state == "waiting"]


# --- what is written ------------------------------------------------------------------------


def test_what_was_triggered_stands_among_the_orders_until_somebody_has_it(kept):
    key = order(kept, "trigger-1", data='{"n":1}')
    assert kept.keys() == {"meta", "runs", "checkpoints", "orders"}
    assert kept.stored("meta") == {"format": "1"}
    assert kept.stored("runs") == {
        TRIGGER: '["waiting",0,1,"",1800005000000,0,0,0,0,0,0,0,0,null,null,"",1800005000000]'
    }
    assert kept.stored("checkpoints") == {TRIGGER: '{"n":1}'}
    assert kept.stored("orders") == {f"t{TRIGGER}": "0"}
    assert isinstance(take(kept, key), Won)
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "checkpoints", "kept", "order"}
    assert kept.stored("runs")[TRIGGER].startswith('["running",1,1,"a",1800005030000,')
    assert kept.stored("lines") == {
        f"{TRIGGER}\x001": '["running",null,"manual","instance-a",1800005000000,'
        "null,null,null,null]"
    }
    assert kept.stored("jobs") == {"m": "[1800005000000000,-9007199254740992,0,1,0]"}
    assert kept.stored("kept") == {TRIGGER: "0"}
    assert kept.stored("order") == {f"{WHEN}\0m\0trigger-1": "0"}


def test_a_backfilled_slot_stands_there_until_it_ends(kept):
    """With another letter while it runs; handed over it has lines, and waits all the same."""
    key = order(kept, "backfill-1")
    assert kept.stored("orders") == {f"b{BACKFILL}": "0"}
    take(kept, key)
    assert kept.stored("orders") == {f"r{BACKFILL}": "0"}
    assert kept.stored("kept") == {BACKFILL: "0"}
    kept.bench.release(0, key=key)
    assert kept.stored("orders") == {f"b{BACKFILL}": "0"}
    assert kept.stored("kept") == {BACKFILL: "0"}
    assert [row[1:3] for row in kept.bench.told("m")] == [(1, "interrupted")]
    take(kept, key, 2)
    kept.bench.finish(0, 2, key=key)
    assert kept.keys() == {"meta", "jobs", "runs", "lines", "kept", "order"}


@pytest.mark.parametrize("token", ["trigger-1", "backfill-1"])
def test_what_is_cancelled_before_anybody_had_it_is_kept_as_closed(kept, token):
    """It has no line of history, and leaves as others do."""
    key = order(kept, token, -1, job="job")
    assert kept.bench.backend.cancel(key)
    assert kept.stored("orders") == {}
    answer = take(kept, key)
    assert isinstance(answer, Closed)
    assert (answer.status, answer.detail) == ("interrupted", "cancelled")
    assert kept.bench.history() == []
    for slot in range(-100, 0):
        kept.bench.run_through(slot / 1000)
    assert (len(kept.stored("runs")), len(kept.stored("lines"))) == (101, 100)
    kept.bench.run_through(0)
    assert len(kept.stored("runs")) == len(kept.stored("lines")) == 100


def test_what_waited_for_too_long_is_closed_by_its_claim(kept):
    key = order(kept, "trigger-1")
    kept.bench.clock.advance(1)
    answer = take(kept, key, catch_up_ms=0)
    assert isinstance(answer, Closed)
    assert (answer.status, answer.detail, answer.run.attempt) == ("lost", "too old", 0)
    assert kept.stored("orders") == {}


# --- what is named --------------------------------------------------------------------------


def test_ten_are_named_and_a_backfilled_slot_in_its_place_among_them(kept):
    """Before what was triggered in the same millisecond, as the tokens say."""
    triggered = [order(kept, f"trigger-{number}", number // 2) for number in range(12)]
    slot = order(kept, "backfill-1", 2)
    assert waiting(kept) == [*triggered[:4], slot, *triggered[4:9]]
    wanted = kept.bench.wish(0, wants=9)._replace(key=triggered[0])
    assert [run.key for run in kept.bench.claims(wanted).open] == [
        *triggered[1:4],
        slot,
        *triggered[4:10],
    ]


# --- what is removed ------------------------------------------------------------------------


def test_what_nobody_took_leaves_nothing_behind(kept):
    order(kept, "trigger-1", data="1")
    order(kept, "backfill-1")
    key = order(kept, "backfill-0")
    take(kept, key)
    kept.bench.clock.advance(THIRTY_DAYS_MS + 1)
    order(kept, "trigger-2", job="other")
    assert len(kept.stored("orders")) == 4
    order(kept, "trigger-2")
    assert sorted(kept.stored("orders")) == [f"t{job}\0{WHEN}\0trigger-2" for job in ("m", "other")]
    assert kept.keys() == {"meta", "jobs", "runs", "orders"}


def test_a_dead_backfill_that_is_trimmed_leaves_nothing_behind(kept):
    key = order(kept, "backfill-1", -200, job="job")
    take(kept, key)
    kept.bench.clock.advance(3_700_000)
    for slot in range(-150, 0):
        kept.bench.run_through(slot / 1000)
    assert kept.stored("orders") == {}
    assert "backfill-1" not in {run.run_id for run in kept.bench.history()}


def test_a_backfill_that_goes_on_is_not_forgotten(kept):
    key = order(kept, "backfill-1")
    take(kept, key, lease_ms=2 * THIRTY_DAYS_MS)
    kept.bench.clock.advance(THIRTY_DAYS_MS + 1)
    order(kept, "trigger-2")
    assert f"r{BACKFILL}" in kept.stored("orders")
    kept.bench.finish(0, key=key)
    assert [row[2] for row in kept.bench.told("m")] == ["success"]


@pytest.mark.parametrize("token", ["token", "trigger-1", "backfill-1"])
def test_a_manual_run_that_waits_again_stays_however_much_is_recorded(kept, token):
    if token == "token":
        key = kept.bench.manual(token, -200).key
    else:
        key = order(kept, token, -200, job="job")
        take(kept, key)
    kept.bench.release(-200, key=key)
    kept.bench.clock.advance(3_700_000)
    for slot in range(-150, 0):
        kept.bench.run_through(slot / 1000)
    assert key.run_id in {run.run_id for run in kept.bench.history()}
    assert isinstance(take(kept, key, 2), Won)


def test_a_call_forgets_a_thousand_of_a_kind_at_most(kept):
    keys = [kept.bench.key(-n)._replace(manual=f"trigger-{n}") for n in range(1001)]
    kept.bench.backend.trigger(keys, data=None)
    kept.bench.clock.advance(THIRTY_DAYS_MS + 1)
    new = order(kept, "trigger-new", 1, job="job")
    assert waiting(kept, "job") == [keys[0], new]


# --- what is damaged ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "fields", "is_read"),
    [
        ("trigger-1", {}, True),
        ("backfill-1", {}, True),
        ("trigger-1", {"first": 2}, False),
        ("trigger-1", {"first": 0}, False),
        ("trigger-1", {"attempt": -1}, False),
        ("trigger-1", {"state": "running"}, False),
        ("trigger-1", {"lease": -1}, False),
    ],
)
def test_a_run_that_nobody_had_is_one_only_as_an_order(kept, token, fields, is_read):
    key = order(kept, token)
    for name, value in fields.items():
        kept.spoil("runs", RUN.index(name), value)
    answer = take(kept, key)
    assert isinstance(answer, Won) is is_read
    if not is_read:
        assert (answer.status, answer.detail, answer.by) == ("lost", "unreadable record", "")
        assert waiting(kept) == []
        order(kept, token)
        assert take(kept, key) == answer


@pytest.mark.parametrize("token", ["", "token", "trigger", "a trigger-1"])
def test_no_other_run_has_an_attempt_of_zero(kept, token):
    if token:
        key = kept.bench.manual(token).key
    else:
        kept.bench.claim(0)
        key = kept.bench.key(0)
    for name, value in (("attempt", 0), ("state", "waiting")):
        kept.spoil("runs", RUN.index(name), value)
    assert take(kept, key).detail == "unreadable record"


ODD = ("", "t", "x", "t\0", "tm\0x\0", f"tm\0{WHEN}", f"bm\0{WHEN}\0backfill-9", "rm\0\0", "\xff")


def test_odd_orders_are_passed_by(kept):
    """Those of nothing, and those that say otherwise than the run does."""
    key = order(kept, "trigger-1")
    slot = order(kept, "backfill-2", 1)
    for odd in (*ODD, f"b{TRIGGER}", f"r{TRIGGER}", f"t{BACKFILL}", f"rm\0{WHEN}\0backfill-2"):
        kept.ask("ZADD", kept.key["orders"], 0, odd)
    assert waiting(kept) == [key, slot]
    assert isinstance(take(kept, slot), Won)
    assert isinstance(take(kept, key), Won)
    assert waiting(kept) == []
    order(kept, "trigger-3")


# --- what it costs --------------------------------------------------------------------------


def calls(kept, ask, command):
    """Return how often a command is called by what a question runs."""
    kept.ask("CONFIG", "RESETSTAT")
    ask()
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", kept.ask("INFO", "commandstats").decode())
    return int(found[1]) if found else 0


def test_while_nothing_is_ordered_a_call_costs_one_command_more(kept):
    """Not one for each job: ten of them have ten places to look for open runs."""
    jobs = [f"job-{number}" for number in range(10)]
    assert calls(kept, lambda: kept.bench.look(*jobs), "zrangebylex") == 11


def test_many_orders_are_not_read_by_a_call(kept):
    """Ten that were triggered and one backfill; whether one of these runs is known without."""
    for kind in ("trigger", "backfill"):
        keys = [kept.bench.key(-n, "m")._replace(manual=f"{kind}-{n}") for n in range(1000)]
        kept.bench.backend.trigger(keys, data=None)
    last = kept.bench.key(0, "m")._replace(manual="backfill-0")
    for ask in (
        lambda: kept.bench.look("m"),
        lambda: kept.bench.claim(0, job="m"),
        lambda: take(kept, last),
    ):
        assert 10 <= calls(kept, ask, "hget") <= 20


# --- durability -----------------------------------------------------------------------------


@contextmanager
def opened(server, **options):
    backend = RedisBackend(server.url, **options)
    backend.open(Limits(5.0, 2.0, 2.0))
    yield backend
    backend.close()


@pytest.fixture
def primary(own_server):
    return own_server(RedisServer("redis-8.2"))


def claimed(backend, key, attempt=1):
    wanted = wish("job", 0, attempt)._replace(key=key, terms=TERMS._replace(budget=0))
    return backend.claim([wanted], owner=Owner("a", "a"), wins=1, pace=Pace(0.0)).answers[0]


def test_a_claim_of_an_order_that_no_replica_has_is_given_back(primary):
    key = RunKey("job", now_ms(), "trigger-1")
    with opened(primary) as plain, opened(primary, durability="wait:1") as backend:
        plain.trigger([key], data="7")
        with pytest.raises(BackendUnavailable, match="given back"):
            claimed(backend, key)
        assert claimed(plain, key) == Waiting(key, 1)
        again = claimed(plain, key, 2)
        assert (again.attempt, again.checkpoint) == (2, "7")


def test_an_order_is_repeated_until_a_replica_has_it(own_server, primary):
    key = RunKey("job", now_ms(), "backfill-1")
    with opened(primary, durability="wait:1") as backend:
        for _ in range(2):  # also on a connection that has written nothing yet
            with pytest.raises(BackendUnavailable, match="0 of 1 replicas confirmed what the"):
                backend.trigger([key], data=None)
        replica = own_server(RedisServer("redis-8.2", primary=primary))
        replica.catch_up(primary)
        backend.trigger([key], data=None)
    primary.kill()
    replica.promote()
    with opened(replica) as promoted:
        assert isinstance(claimed(promoted, key), Won)
