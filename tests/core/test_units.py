"""The small parts of the core by themselves: what is watched, held and missed, and when."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, get_args

import pytest

from anarchon._core_held import Held, HeldRuns
from anarchon._core_jobs import JobSlots, Pending
from anarchon._core_missed import UNREACHABLE, Misses
from anarchon._core_watches import Watch, Watches
from anarchon._messages import Now, Settings
from anarchon._states import HandlerState, RecordState
from anarchon._values import Lease, Looked, SkipWish
from tests.core.stage import Chance
from tests.core.words import ME, handed_over, job, key, ms, running

if TYPE_CHECKING:
    from anarchon._values import OpenRun

# --- watches --------------------------------------------------------------------

RUN = key("sync", 10)
SETTINGS = Settings(30, 10, 10, "here:1", ME)


def watch(*seen: tuple[float, OpenRun], agrees: bool = True):
    """Return the watch of a run that was seen so, at these monotonic instants."""
    watches = Watches(SETTINGS, Chance())
    for received, run in seen:
        found = watches.see(run, received, agrees=agrees)
    return found


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize(
    ("left", "ready"),
    [
        (30, inf),  # just renewed
        (29.999, inf),
        (15.001, inf),
        (15, 130.002),  # not renewed for a heartbeat and a half
        (0.001, 130.002),
        (30.001, 130.002),  # renewed after now: the store's clock has stepped back
        (3600, 130.002),
    ],
)
def test_a_lease_that_runs_is_not_claimed_until_it_was_seen_so_for_all_its_length(
    left, ready, agrees
):
    seen = watch((100.0, running(RUN, left=left)), agrees=agrees)
    assert seen.ready_at == pytest.approx(ready)


@pytest.mark.parametrize("left", [0, -0.001, -100])
def test_a_lease_that_has_ended_is_claimed_at_once_or_after_the_witness(left):
    run = running(RUN, left=left)
    assert watch((100.0, run)).ready_at == 100.0
    assert watch((100.0, run), agrees=False).ready_at == pytest.approx(127.002)
    assert watch((100.0, run), (120.0, run), agrees=False).ready_at == pytest.approx(127.002)
    assert watch((100.0, run), (128.0, run), agrees=False).ready_at == 128.0


@pytest.mark.parametrize(("lease", "witness"), [(30, 27), (2, 1.75), (2.5, 2.25), (2.6, 2.34)])
def test_the_witness_is_the_lease_less_the_margin_of_its_owner(lease, witness):
    run = running(RUN, left=-1, lease=lease)
    seen = watch((100.0, run), agrees=False)
    assert seen.ready_at == pytest.approx(100 + witness + 0.002)


def test_what_waits_or_is_mine_is_claimed_at_once():
    assert watch((100.0, handed_over(RUN))).ready_at == 100.0
    assert watch((100.0, running(RUN, left=29, by=ME))).ready_at == 100.0


@pytest.mark.parametrize(
    ("run", "wants", "dead", "mine", "waits"),
    [
        (running(RUN, 2), 3, True, False, False),
        (handed_over(RUN, 2), 3, False, False, True),
        (running(RUN, 2, by=ME), 2, False, True, False),
        (handed_over(RUN, 2)._replace(mine=True), 3, False, False, True),
    ],
)
def test_what_is_asked_for(run, wants, dead, mine, waits):
    seen = watch((100.0, run))
    assert (seen.wants, seen.dead, seen.mine, seen.waits) == (wants, dead, mine, waits)
    assert (seen.key, seen.attempt, seen.beat, seen.told_at) == (RUN, 2, run.beat, 100.0)


@pytest.mark.parametrize(
    ("second", "first_seen"),
    [
        (running(RUN, 1, beat=3), 100.0),
        (running(RUN, 1, beat=4), 110.0),
        (running(RUN, 2, beat=3), 110.0),
    ],
)
def test_the_time_first_seen_is_kept_for_the_same_renewal_only(second, first_seen):
    seen = watch((100.0, running(RUN, 1, beat=3)), (110.0, second))
    assert (seen.first_seen, seen.told_at) == (first_seen, 110.0)
    assert (seen.attempt, seen.beat) == (second.attempt, second.beat)


def test_what_was_claimed_in_vain_is_ready_again_when_it_has_changed():
    watches = Watches(SETTINGS, Chance())
    watches.see(handed_over(RUN, 1), 100.0, agrees=True).refuse()
    assert watches.see(handed_over(RUN, 1), 101.0, agrees=True).ready_at == inf
    assert watches.see(running(RUN, 1, left=-1), 102.0, agrees=True).ready_at == 102.0
    assert watches.see(handed_over(RUN, 2), 103.0, agrees=True).ready_at == 103.0


def test_the_oldest_run_is_claimed_first():
    watches = Watches(SETTINGS, Chance())
    for slot in (30, 10, 20):
        watches.see(handed_over(key("sync", slot)), 100.0 + slot, agrees=True)
    assert [w.key for w in watches.ready(125.0)] == [key("sync", 10), key("sync", 20)]
    assert sorted(watches.wakeups()) == [110.0, 120.0, 130.0]


def test_only_a_lease_end_that_lies_ahead_is_looked_at():
    watches = Watches(SETTINGS, Chance())
    watches.see(running(RUN, left=0), 100.0, agrees=True)
    watches.see(handed_over(key("sync", 20)), 100.0, agrees=True)
    assert watches.look_due() == inf
    watches.see(running(RUN, left=0.001), 100.0, agrees=True)
    assert watches.look_due() == pytest.approx(100.003)


def looked(*wrong: OpenRun, others: int) -> Looked:
    return Looked(wrong, others, None, 0)


@pytest.mark.parametrize(("known_by", "forgotten"), [(99.9, False), (100.0, True), (101.0, True)])
def test_what_was_heard_of_after_a_question_was_sent_is_not_undone_by_its_answer(
    known_by, forgotten
):
    for answer in ("claim", "look with none", "look with some"):
        watches = Watches(SETTINGS, Chance())
        seen = watches.see(handed_over(RUN), 100.0, agrees=True)
        if answer == "claim":
            watches.forget_job("sync", known_by=known_by)
        else:
            watches.looked(looked(others=int(answer.endswith("some"))), known_by, 200.0)
        if answer.endswith("some"):
            assert seen.ready_at == (inf if forgotten else 100.0)
        else:
            assert (RUN in watches) != forgotten


def test_a_run_that_is_named_is_kept():
    watches = Watches(SETTINGS, Chance())
    for slot in (10, 20):
        watches.see(handed_over(key("sync", slot)), 100.0, agrees=True)
    watches.forget_job("sync", except_for=[RUN], known_by=100.0)
    assert RUN in watches
    assert len(watches) == 1
    watches.forget_job("sync")
    watches.forget_job("sync")
    assert watches.jobs() == ()


def test_a_win_of_mine_that_a_look_lists_stays_though_nobody_else_has_a_run():
    watches = Watches(SETTINGS, Chance())
    mine = running(RUN, left=14, by=ME)
    first = watches.see(mine, 100.0, agrees=True)
    watches.looked(looked(mine, others=0), 105.0, 106.0)
    assert watches.see(mine, 106.0, agrees=True) is first


def test_after_a_stop_there_is_nothing_to_look_at():
    watches = Watches(SETTINGS, Chance())
    watches.see(running(RUN, left=20), 100.0, agrees=True)
    watches.plan(100.0, needed=False)
    assert watches.jobs() == ("sync",)
    assert watches.look_due() < inf
    watches.clear()
    assert (watches.jobs(), watches.look_due(), len(watches)) == ((), inf, 0)


# --- held -------------------------------------------------------------------------


def held_in(handler: HandlerState, record: RecordState, **more: object) -> HeldRuns:
    """Return the attempts held, one, in these states, with four instants ahead."""
    runs = HeldRuns(SETTINGS)
    held = Held(Lease(RUN, 1), job(), "scheduled", 1)
    held.handler, held.record = handler, record
    held.start_at, held.deadline, held.timeout_at, held.stuck_at = 1.0, 2.0, 3.0, 4.0
    for name, value in more.items():
        setattr(held, name, value)
    runs.add(held)
    return runs


@pytest.mark.parametrize(
    ("handler", "record", "more", "wakeups"),
    [
        ("pending", "open", {}, [1.0, 2.0]),
        ("live", "open", {}, [2.0, 3.0, 4.0]),
        ("live", "open", {"fenced": True}, [3.0, 4.0]),
        ("live", "open", {"abort": "lost", "fenced": True}, [4.0]),
        ("live", "open", {"abort": "stop"}, [2.0, 4.0]),
        ("live", "open", {"abort": "lost", "fenced": True, "stuck": True}, []),
        ("live", "settling", {"abort": "timeout"}, [4.0]),
        ("live", "settled", {"abort": "timeout"}, [4.0]),
        ("live", "settled", {"abort": "timeout", "stuck": True}, []),
        ("live", "taken", {}, [4.0]),
        ("done", "settling", {}, []),
        ("done", "settling", {"fenced": True}, []),
    ],
)
def test_what_is_held_wakes_up_for_what_may_happen_to_it(handler, record, more, wakeups):
    assert sorted(held_in(handler, record, **more).wakeups()) == wakeups


@pytest.mark.parametrize("record", get_args(RecordState))
def test_a_worker_is_free_as_soon_as_its_handler_is_done(record):
    assert held_in("done", record).free_workers() == 10
    assert held_in("live", record).free_workers() == 9
    assert held_in("pending", record).free_workers() == 9
    assert held_in("live", record, stuck=True).free_workers() == 10


@pytest.mark.parametrize("handler", get_args(HandlerState))
def test_only_what_runs_is_counted(handler):
    runs = held_in(handler, "settling", stuck=True)
    count = int(handler == "live")
    assert (runs.live_count(), runs.stuck_count()) == (count, count)


@pytest.mark.parametrize(
    ("record", "more", "renewed"),
    [
        ("open", {}, True),
        ("settling", {}, True),
        ("settled", {}, False),
        ("taken", {}, False),
        ("open", {"known": False}, False),
        ("open", {"fenced": True}, False),
        ("settling", {"abort": "timeout"}, False),
        ("open", {"abort": "stop"}, True),
        ("open", {"abort": "cancel"}, True),
    ],
)
def test_what_is_renewed(record, more, renewed):
    assert held_in("live", record, **more).renewable() == ((Lease(RUN, 1),) if renewed else ())


# --- missed -----------------------------------------------------------------------

SINCE = "2027-01-15T08:00:{:02}.000Z"


def at(seconds: float, mono: float | None = None) -> Now:
    return Now(ms(seconds), 500 + seconds if mono is None else mono)


def wish(slot: float, following: float, detail: str = "too late") -> SkipWish:
    return SkipWish(key("a", slot), ms(following), detail)


def misses(*slots: tuple[float, float, float, str]) -> Misses:
    found = Misses()
    for first, last, following, why in slots:
        found.add("a", ms(first), ms(last), ms(following), why)
    return found


def test_a_slot_is_ready_when_the_next_one_is_due():
    missed = misses((10, 10, 20, "too late"))
    missed.collect(at(19.999))
    assert missed.ready(9) == ()
    assert list(missed.wakeups(at(12, mono=500))) == [508.0]
    missed.collect(at(20))
    assert missed.ready(9) == (wish(10, 20),)
    assert list(missed.wakeups(at(21, mono=600))) == [600]
    assert missed.settled(key("a", 10)).wish == wish(10, 20)
    assert missed.ready(9) == ()
    assert list(missed.wakeups(at(21))) == []
    assert missed.settled(key("a", 10)) is None


def test_at_most_so_many_are_given():
    missed = misses(*((n, n, n + 1, "too late") for n in range(5)))
    missed.collect(at(10))
    assert missed.ready(3) == tuple(wish(n, n + 1) for n in range(3))


def test_what_was_too_early_waits_for_its_instant():
    missed = misses((10, 10, 20, "too late"), (20, 20, 30, "too late"))
    missed.collect(at(30))
    missed.put_off(key("a", 10), 540.0)
    missed.put_off(key("a", 99), 1.0)
    missed.collect(at(31, mono=539.9))
    assert missed.ready(9) == (wish(20, 30),)
    assert sorted(missed.wakeups(at(31, mono=539.9))) == [539.9, 540.0]
    missed.collect(at(31, mono=540.0))
    assert missed.ready(9) == (wish(20, 30), wish(10, 20))
    assert list(missed.wakeups(at(31, mono=540.0))) == [540.0]


def test_slots_of_their_own_reasons_have_records_of_their_own():
    missed = misses((10, 10, 20, "no free worker"), (20, 40, 50, "too late"))
    missed.collect(at(50))
    since = f"too late; slots since {SINCE.format(20)}"
    assert missed.ready(9) == (wish(10, 20, "no free worker"), wish(40, 50, since))


def test_an_outage_has_one_record_from_the_first_slot_on():
    missed = misses(
        (10, 10, 20, "no free worker"), *((n, n, n + 10, UNREACHABLE) for n in (20, 30))
    )
    missed.collect(at(50))
    since = f"{UNREACHABLE}; slots since {SINCE.format(10)}"
    assert missed.ready(9) == (wish(30, 40, since),)


def test_a_slot_right_before_an_outage_joins_its_record():
    missed = misses((20, 30, 40, UNREACHABLE), (10, 10, 20, "not claimed in time"))
    missed.collect(at(50))
    since = f"{UNREACHABLE}; slots since {SINCE.format(10)}"
    assert missed.ready(9) == (wish(30, 40, since),)
    assert missed.settled(key("a", 30)).first_ms == ms(10)


def test_a_slot_long_before_an_outage_does_not():
    missed = misses((30, 30, 40, UNREACHABLE), (10, 10, 20, "not claimed in time"))
    missed.collect(at(50))
    assert len(missed.ready(9)) == 2


def test_a_record_that_looks_for_a_place_joins_nothing():
    missed = misses((40, 40, 50, UNREACHABLE))
    missed.add("a", ms(10), ms(30), ms(40), UNREACHABLE, tries=1)
    missed.collect(at(60))
    assert [skip.key for skip in missed.ready(9)] == [key("a", 40)]
    assert [skip.key for skip in missed.seeking(9)] == [key("a", 30)]
    assert [skip.key for skip in missed.seeking(0)] == []
    missed.put_off(key("a", 30), 70)
    assert missed.seeking(9) == ()
    missed.collect(at(71))
    assert [skip.key for skip in missed.seeking(9)] == [key("a", 30)]
    assert missed.settled(key("a", 30)).tries == 1
    assert missed.settled(key("a", 40)).tries == 0


def test_jobs_do_not_mix():
    missed = misses((10, 10, 20, UNREACHABLE))
    missed.add("b", ms(20), ms(20), ms(30), UNREACHABLE)
    missed.collect(at(60))
    assert len(missed.ready(9)) == 2
    missed.remove("a")
    assert [skip.key.job for skip in missed.ready(9)] == ["b"]
    missed.remove("ghost")
    assert set(missed._jobs) == {"b"}


def test_what_lies_ahead_is_given_back():
    missed = misses((10, 10, 20, "too late"), (20, 20, 30, "too late"), (30, 30, 40, "too late"))
    missed.collect(at(30))
    assert [found.wish.key for found in missed.forget_after(ms(20))] == [key("a", 30)]
    missed.collect(at(60))
    assert [skip.key for skip in missed.ready(9)] == [key("a", 10), key("a", 20)]


def test_all_is_forgotten():
    missed = misses((10, 10, 20, "too late"), (20, 20, 30, "too late"))
    missed.collect(at(20))
    missed.put_off(key("a", 10), 530.0)
    missed.clear()
    missed.collect(at(100))
    assert missed.ready(9) == ()
    assert list(missed.wakeups(at(100))) == []


def test_a_slot_that_was_settled_before_its_time_is_not_ready():
    missed = misses((10, 10, 20, "too late"))
    missed.settled(key("a", 10))
    missed.add("a", ms(10), ms(10), ms(30), "too late")
    missed.collect(at(20))
    assert missed.ready(9) == ()
    missed.collect(at(30))
    assert missed.ready(9) == (wish(10, 30),)


@pytest.mark.parametrize("kept", [Watch, JobSlots, Pending, Held])
def test_what_there_may_be_many_of_is_small(kept):
    assert "__slots__" in vars(kept)
    assert "__dict__" not in dir(kept)
