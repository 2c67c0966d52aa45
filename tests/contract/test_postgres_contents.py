"""What a PostgreSQL is given to keep, to the column: the next version has to read it."""

from __future__ import annotations

import uuid

import pytest

from anarchon._testing_contract.bench import Bench
from anarchon._values import Presence
from tests.stores.postgres_clock import SCHEMA, ByHand, TableClock

T0 = 1_800_005_000_000  # where such a clock begins, and slot 0


class Kept:
    """A store on a clock that is moved by hand, and what is in its tables."""

    def __init__(self, database, bench):
        self._database = database
        self.bench = bench

    def rows(self, table):
        """Return the rows of our namespace without that column, by their keys."""
        found = self._database.ask(
            f'SELECT * FROM "{SCHEMA}".anarchon_{table} WHERE namespace = %s ORDER BY 2, 3',
            [self.bench.backend.namespace],
        )
        return [row[1:] for row in found]


@pytest.fixture
def kept(database):
    clock = TableClock(database)
    store = ByHand(database.url, clock=clock, namespace=f"kept {uuid.uuid4()}")
    yield Kept(database, Bench(store, clock, 30_000))
    store.close()
    clock.close()


FLOOR = -9_007_199_254_740_992  # no slot was trimmed, and the place where no overlap is allowed


def test_a_run_that_runs_and_a_slot_that_is_skipped(kept):
    bench = kept.bench
    bench.clock.advance(10_000)
    bench.claim(0, budget=4, catch_up_ms=7, skip_overlap=False)
    bench.any.save(bench.lease(0), owner=bench.owner("a"), value='{"n":1}')
    bench.renew(0)
    bench.backend.pause(None, duration_ms=5)
    bench.claim(1, by="b")
    now = T0 + 10_000
    assert kept.rows("job") == [("job", now * 1000, FLOOR, 0, 1, 1)]
    running = ("running", "a", now + 30_000, 30_000, 10_000, 1, now * 1000, 0, 4, 7, 0)
    skipped = ("closed", "", *[0] * 9, "skipped", "paused", "b", now, T0 + 1000)
    assert kept.rows("run") == [
        ("job", T0, "", 1, *running, None, None, "", now, T0),
        ("job", T0 + 1000, "", 1, *skipped),
    ]
    never, nothing = ("skipped", "paused", "scheduled", "instance-b"), (None, None, None)
    assert kept.rows("attempt") == [
        ("job", T0, "", 1, "running", None, "scheduled", "instance-a", now, None, *nothing),
        ("job", T0 + 1000, "", 1, *never, None, now, *nothing),
    ]
    assert kept.rows("checkpoint") == [("job", T0, "", '{"n":1}')]


def test_a_run_through_a_hand_over_and_a_death(kept):
    bench, key = kept.bench, ("job", T0, "")
    bench.claim(0, budget=4, catch_up_ms=7)
    bench.any.save(bench.lease(0), owner=bench.owner("a"), value="1")
    bench.clock.advance(3)
    bench.release(0, detail="bye")
    at = T0 + 3
    first = ("interrupted", "bye", "scheduled", "instance-a", at, at + 5, 5, None, None)
    held = ("waiting", "a", at, 30_000, 10_000, 0, T0 * 1000, 0, 4, 7, 0, None, None, "", at)
    assert kept.rows("run") == [(*key, 1, *held, FLOOR)]
    assert kept.rows("attempt") == [(*key, 1, *first)]

    bench.claim(0, wants=2, by="c", heartbeat_ms=7, budget=9, catch_up_ms=8)
    running = ("running", "c", at + 30_000, 30_000, 7, 0, at * 1000, 0, 9, 8, 0)
    assert kept.rows("run") == [(*key, 2, *running, None, None, "", at, FLOOR)]

    bench.clock.advance(30_300)
    died = at + 30_300
    bench.claim(0, wants=3, by="d", beat=0, unseen=bench.lease_ms)
    assert kept.rows("job") == [("job", died * 1000, FLOOR, 0, 3, 0)]
    running = ("running", "d", died + 30_000, 30_000, 10_000, 0, died * 1000, 1, 3, 0, 0)
    assert kept.rows("run") == [(*key, 3, *running, None, None, "", died, FLOOR)]
    lost = ("lost", "taken over", "takeover", "instance-c", at, died, None, None, None)
    third = ("running", None, "takeover", "instance-d", died, None, None, None, None)
    assert kept.rows("attempt") == [(*key, 1, *first), (*key, 2, *lost), (*key, 3, *third)]
    assert kept.rows("checkpoint") == [(*key, "1")]

    bench.finish(0, 3, by="d", status="failed", error="E", traceback="T", detail="D")
    ended = ("closed", *running[1:], "failed", "D", "d", died)
    assert kept.rows("run") == [(*key, 3, *ended, FLOOR)]
    failed = ("failed", "D", "takeover", "instance-d", died, died + 5, 5, "E", "T")
    assert kept.rows("attempt")[2:] == [(*key, 3, *failed)]
    assert kept.rows("checkpoint") == []


def test_a_budget_that_is_used_up_a_manual_run_and_a_result_that_was_lost(kept):
    bench = kept.bench
    bench.manual("t", job="m")
    bench.finish(0, 3, job="n", fence=8)
    bench.claim(0, budget=1)
    bench.clock.advance(30_300)
    died = T0 + 30_300
    bench.claim(0, wants=2, by="d", beat=0, unseen=bench.lease_ms)
    assert kept.rows("job") == [
        ("job", T0 * 1000, FLOOR, 0, 1, 0),
        ("m", 0, FLOOR, 0, 1, 0),
        ("n", 8, FLOOR, 0, 1, 0),
    ]
    ended = ("closed", "a", T0 + 30_000, 30_000, 10_000, 0, T0 * 1000, 1, 1, 0, 0)
    manual = ("running", "a", T0 + 30_000, 30_000, 10_000, *[0] * 6, None, None, "", T0, T0)
    lost = ("closed", "a", T0, 0, 0, 0, 8, *[0] * 4, "success", None, "a", T0, T0)
    assert kept.rows("run") == [
        ("job", T0, "", 1, *ended, "failed", None, "d", died, FLOOR),
        ("m", T0, "t", 1, *manual),
        ("n", T0, "", 3, *lost),
    ]
    dead = ("failed", None, "scheduled", "instance-a", T0, died, None, "runner died 1 time", None)
    asked = ("running", None, "manual", "instance-a", T0, None, None, None, None)
    told = ("success", None, "scheduled", "instance-a", T0, T0 + 5, 5, None, None)
    assert kept.rows("attempt") == [
        ("job", T0, "", 1, *dead),
        ("m", T0, "t", 1, *asked),
        ("n", T0, "", 3, *told),
    ]


@pytest.mark.parametrize(("fence", "known"), [(2**53 - 1, 2**53 - 1), (2**53, 0), (2**53 + 1, 0)])
def test_a_fence_that_leaves_no_room_is_not_that_of_the_job(kept, fence, known):
    kept.bench.finish(0, 3, fence=fence)
    assert kept.rows("job") == [("job", known, FLOOR, 0, 1, 0)]
    assert kept.rows("run")[0][10] == known


def test_a_run_that_was_ordered_and_then_won(kept):
    bench, key = kept.bench, ("job", T0 - 7000, "backfill-1")
    run = bench.key(-7)._replace(manual="backfill-1")
    bench.any.trigger([run], data='{"n":1}')
    assert kept.rows("job") == [("job", 0, FLOOR, 0, 0, 0)]
    waiting = ("waiting", "", T0, *[0] * 8, None, None, "", T0, T0 - 7000)
    assert kept.rows("run") == [(*key, 0, *waiting)]
    assert kept.rows("attempt") == []
    assert kept.rows("checkpoint") == [(*key, '{"n":1}')]

    bench.clock.advance(10)
    now, wish = T0 + 10, bench.wish(0, budget=0, catch_up_ms=80, reason="catch-up")
    bench.claims(wish._replace(key=run))
    assert kept.rows("job") == [("job", now * 1000, FLOOR, 0, 1, 0)]
    running = ("running", "a", now + 30_000, 30_000, 10_000, 0, now * 1000, 0, 0, 80, 0)
    assert kept.rows("run") == [(*key, 1, *running, None, None, "", now, T0 - 7000)]
    begun = ("running", None, "catch-up", "instance-a", now, None, None, None, None)
    assert kept.rows("attempt") == [(*key, 1, *begun)]
    assert kept.rows("checkpoint") == [(*key, '{"n":1}')]

    bench.finish(0, key=run, reason="catch-up")
    ended = ("closed", *running[1:], "success", None, "a", now)
    assert kept.rows("run") == [(*key, 1, *ended, T0 - 7000)]
    assert kept.rows("checkpoint") == []


def test_what_an_instance_says_and_the_slot_that_it_tells_of(kept):
    bench = kept.bench
    owner = bench.owner("a")._replace(presence=Presence(T0 + 9, '{"n":1}', '{"pid":1}'))
    bench.backend.present(owner)
    assert kept.rows("instance") == [("a", T0, T0 + 9, '{"n":1}', '{"pid":1}')]
    bench.clock.advance(3)
    other = bench.owner("b")._replace(presence=Presence(T0 + 7, "{}"))
    for said in (other, owner._replace(presence=Presence(T0 + 8, '{"n":2}'))):
        bench.backend.claim([bench.wish(0)], owner=said, wins=0, pace=bench.pace())
    said = [("a", T0 + 3, T0 + 8, '{"n":2}', '{"pid":1}'), ("b", T0 + 3, T0 + 7, "{}", "")]
    assert kept.rows("instance") == said
    bench.backend.present(bench.owner("a"))
    assert kept.rows("instance") == said[1:]
    for by, slot in (("a", 0), ("b", 1), ("c", 1), ("c", 0)):
        bench.any.alert([bench.key(slot)], owner=bench.owner(by))
    assert kept.rows("alert") == [("job", T0 + 1000, "b")]
    assert kept.rows("job") == []


def worn(kept, slots=130):
    """Have so many more records that what is older has to go."""
    for slot in range(-slots, 0):
        kept.bench.run_through(slot / 1000)


def test_a_manual_run_that_is_trimmed_takes_along_its_checkpoint_alone(kept, database):
    bench = kept.bench
    lease = bench.manual("dead", -100)
    bench.any.save(lease, owner=bench.owner("a"), value="1")
    own = (bench.backend.namespace, "job", lease.key.slot_ms, "dead")
    changes = (f"other {uuid.uuid4()}", "other", T0 + 1, "alive")
    others = {(*own[:n], changed, *own[n + 1 :]) for n, changed in enumerate(changes)}
    for row in others:
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_checkpoint VALUES (%s, %s, %s, %s, 2)', list(row)
        )
    bench.clock.advance(2 * 3_600_000)
    worn(kept)
    assert [row for row in kept.rows("run") if row[2] == "dead"] == []
    left = database.ask(f'SELECT * FROM "{SCHEMA}".anarchon_checkpoint WHERE value = %s', ["2"])
    assert {row[:4] for row in left} >= others
    assert [row for row in kept.rows("checkpoint") if row[3] == "1"] == []


def test_what_a_user_s_transaction_holds_is_trimmed_later(kept, database):
    """Nobody waits for it, nor for others of the same slot."""
    bench = kept.bench
    for token in ("a", "b"):
        lease = bench.manual(token, -100)
        ended = bench.result(0, key=lease.key, status="success", reason="manual")
        bench.backend.finish([ended], owner=bench.owner("a"))
    with database.connect() as holder, holder.transaction():
        holder.execute(
            f'SELECT FROM "{SCHEMA}".anarchon_run WHERE namespace = %s AND manual = %s'
            " FOR KEY SHARE",
            [bench.backend.namespace, "a"],
        )
        worn(kept)
        assert [row[2] for row in kept.rows("run") if row[2]] == ["a"]
    bench.run_through(0)
    assert [row[2] for row in kept.rows("run") if row[2]] == []


def test_what_is_trimmed_takes_along_its_own_rows_alone(kept, database):
    bench, oldest = kept.bench, T0 - 130
    clock = bench.clock
    other_store = ByHand(database.url, clock=clock, namespace=f"other {uuid.uuid4()}")
    others = Kept(database, Bench(other_store, clock, 30_000))
    for slot in range(-130, -120):
        others.bench.run_through(slot / 1000)
        bench.run_through(slot / 1000, job="other")
    bench.manual("alive", -0.130)
    spaces = [store.namespace for store in (bench.backend, other_store)]
    for row in (
        (spaces[0], "job", oldest, ""),
        (spaces[0], "job", oldest, "alive"),
        (spaces[0], "job", T0 - 1, ""),
        (spaces[0], "other", oldest, ""),
        (spaces[1], "job", oldest, ""),
    ):
        database.ask(
            f'INSERT INTO "{SCHEMA}".anarchon_completion VALUES (%s, %s, %s, %s, 1, 1)', list(row)
        )
    before = {name: others.rows(name) for name in ("run", "attempt", "completion", "job")}
    beside = [row for row in kept.rows("attempt") if row[0] == "other" or row[2]]
    worn(kept)
    assert {name: others.rows(name) for name in before} == before
    slots = [row[1] - T0 for row in kept.rows("run") if row[:3:2] == ("job", "")]
    assert slots == list(range(-99, 0))  # with the manual one a hundred
    assert [row[1] - T0 for row in kept.rows("attempt") if row[:3:2] == ("job", "")] == slots
    assert [row for row in kept.rows("attempt") if row[0] == "other" or row[2]] == beside
    assert len([row for row in kept.rows("run") if row[0] == "other" or row[2]]) == 11
    assert sorted(row[:3] for row in kept.rows("completion")) == [
        ("job", oldest, "alive"),
        ("job", T0 - 1, ""),
        ("other", oldest, ""),
    ]
    (job, other) = kept.rows("job")
    assert job[2:] == (T0 - 100, 0, 100, 0)
    assert other[2:] == (FLOOR, 0, 10, 0)
    other_store.close()


def test_of_several_results_that_were_lost_the_highest_fence_is_kept(kept):
    bench = kept.bench
    ended = [bench.result(slot, 2, fence=fence) for slot, fence in ((0, 9), (1, 8), (2, 7))]
    bench.backend.finish(ended, owner=bench.owner("a"))
    assert kept.rows("job") == [("job", 9, FLOOR, 0, 3, 0)]
