"""The tables of `_states.py`: every transition, every ending, nothing else."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, get_args

import pytest

from anarchon import _states
from anarchon._messages import (
    Claim,
    Finish,
    Release,
)
from anarchon._states import ENDINGS, HANDLER, RECORD, TIMED_OUT, UNSTARTED, Ending, ending
from anarchon._values import (
    AbortReason,
)
from tests.core.harness import Story
from tests.core.words import job, lease, won

if TYPE_CHECKING:
    from anarchon._messages import (
        JobSpec,
    )

HANDLER_TABLE = {
    ("pending", "start"): "live",
    ("pending", "drop"): "done",
    ("live", "end"): "done",
}
RECORD_TABLE = {
    ("open", "result"): "settling",
    ("open", "lose"): "taken",
    ("settling", "settle"): "settled",
    ("settling", "lose"): "taken",
}


def test_the_tables_are_these():
    assert HANDLER == HANDLER_TABLE
    assert RECORD == RECORD_TABLE


def held_attempt(spec: JobSpec | None = None):
    story = Story(spec or job())
    story.go(10)
    story.until(Claim)
    story.claimed(won(), store=9.5)  # half a second before its slot: it waits
    return story.core._held.get(lease("sync", 10))


@pytest.mark.parametrize(
    ("state", "event"),
    [*product(get_args(_states.HandlerState), get_args(_states.HandlerEvent))],
)
def test_a_handler_moves_by_its_table_and_refuses_the_rest(state, event):
    held = held_attempt()
    held.handler = state
    if (state, event) in HANDLER_TABLE:
        held.handle(event)
        assert held.handler == HANDLER_TABLE[state, event]
    else:
        with pytest.raises(KeyError):
            held.handle(event)
        assert held.handler == state


@pytest.mark.parametrize(
    ("state", "event"),
    [*product(get_args(_states.RecordState), get_args(_states.RecordEvent))],
)
def test_a_record_moves_by_its_table_and_refuses_the_rest(state, event):
    held = held_attempt()
    held.record = state
    if (state, event) in RECORD_TABLE:
        held.note(event)
        assert held.record == RECORD_TABLE[state, event]
    else:
        with pytest.raises(KeyError):
            held.note(event)
        assert held.record == state


@pytest.mark.parametrize(
    ("handler", "kept"),
    [*product(["pending", "live", "done"], get_args(_states.RecordState))],
)
def test_an_attempt_is_over_when_both_its_lives_are(handler, kept):
    held = held_attempt()
    held.handler, held.record = handler, kept
    assert held.over == (handler == "done" and kept in ("settled", "taken"))


def test_every_result_makes_an_attempt_final():
    held = held_attempt()
    held.end(TIMED_OUT, 0.0, None, None)
    with pytest.raises(KeyError):
        held.end(TIMED_OUT, 0.0, None, None)


ENDING_TABLE = {
    (None, "returned"): ("finish", "success", None, False),
    (None, "raised"): ("finish", "failed", None, False),
    ("stop", "returned"): ("finish", "success", "after stop", False),
    ("stop", "raised"): ("release", "interrupted", "handed over", False),
    ("lost", "returned"): ("finish", "success", None, False),
    ("lost", "raised"): ("release", "interrupted", "handed over", True),
    ("cancel", "returned"): ("finish", "success", None, False),
    ("cancel", "raised"): ("release", "interrupted", "cancelled", False),
}


def test_every_abort_but_a_timeout_has_two_endings():
    reasons = [None, *get_args(AbortReason)]
    assert set(ENDINGS) == set(product(reasons, ["returned", "raised"])) - {
        ("timeout", "returned"),
        ("timeout", "raised"),
    }


@pytest.mark.parametrize(("abort", "how"), list(ENDING_TABLE))
def test_an_ending_is_what_its_table_says(abort, how):
    expected = Ending(*ENDING_TABLE[abort, how])
    assert ending(abort, how, follows=True) == expected
    if expected.call == "release":
        expected = Ending("finish", "interrupted", "not handed over")
    assert ending(abort, how, follows=False) == expected


@pytest.mark.parametrize("how", ["returned", "raised"])
@pytest.mark.parametrize("follows", [True, False])
def test_a_timeout_has_no_ending_of_its_own(how, follows):
    with pytest.raises(KeyError):
        ending("timeout", how, follows=follows)


def test_what_never_started_is_handed_over_free():
    assert Ending("release", "interrupted", "handed over", counted=False) == UNSTARTED
    assert Ending("finish", "failed", "timeout", counted=False) == TIMED_OUT


# --- the handler's outcome, line by line --------------------------------------


def outcome(story: Story) -> tuple[type, str, str | None, str | None, bool]:
    (result,) = story.lane.results
    return type(story.lane), result.status, result.detail, result.error, result.counted


def test_returns():
    story = Story(job())
    run = story.win()
    story.returns(run)
    assert outcome(story) == (Finish, "success", None, None, False)


def test_raises_anything():
    story = Story(job())
    run = story.win()
    story.raises(run, "SystemExit: 0")
    assert outcome(story) == (Finish, "failed", None, "SystemExit: 0", False)
    assert story.lane.results[0].traceback == "Traceback"


def test_raises_aborted_without_an_abort_is_a_failure():
    """The signal's state decides, never the exception's type."""
    story = Story(job())
    run = story.win()
    story.obeys(run)
    assert outcome(story) == (Finish, "failed", None, "Aborted: stop", False)


def test_runs_past_its_timeout():
    story = Story(job(every=60, timeout=2))
    run = story.win(slot=60)
    story.wait(2)
    assert story.aborted() == [(run, "timeout")]
    expected = (Finish, "failed", "timeout", "TimeoutError: still running after 2 s", False)
    assert outcome(story) == expected
    story.settled()
    story.returns(run)
    assert story.lane is None
    assert [seen.event for seen in story.events()] == ["failure"]


def test_raises_after_stop_aborted_it():
    story = Story(job())
    run = story.win()
    story.stop()
    story.obeys(run)
    assert outcome(story) == (Release, "interrupted", "handed over", None, False)


def test_an_error_that_is_no_abort_keeps_its_text_when_it_is_handed_over():
    story = Story(job())
    run = story.win()
    story.stop()
    story.raises(run)
    assert outcome(story) == (Release, "interrupted", "handed over", "ValueError: no", False)


def test_returns_after_stop_aborted_it():
    story = Story(job())
    run = story.win()
    story.stop()
    story.returns(run)
    assert outcome(story) == (Finish, "success", "after stop", None, False)


@pytest.mark.parametrize("budget", [3, 0])
def test_raises_after_the_lease_was_lost(budget):
    story = Story(job(every=600, budget=budget))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    assert story.aborted() == [(run, "lost")]
    story.obeys(run)
    if budget:
        assert outcome(story) == (Release, "interrupted", "handed over", None, True)
    else:
        assert outcome(story) == (Finish, "interrupted", "not handed over", None, False)


def test_returns_after_the_lease_was_lost():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    story.returns(run)
    assert outcome(story) == (Finish, "success", None, None, False)
    story.settled()
    assert story.events() == [("success", "sync", 600, 1, None)]


def test_ends_after_somebody_else_took_it_over():
    story = Story(job(every=600))
    run = story.win(slot=600)
    story.fail_renewals_until(630)
    story.returns(run)
    story.lost()
    assert story.events() == [("lost", "sync", 600, 1, "no longer held")]


@pytest.mark.parametrize("budget", [3, 0])
def test_cancelled(budget):
    story = Story(job(every=600, budget=budget))
    run = story.win(slot=600)
    story.wait(10)
    story.renewed(cancelled=(run,))
    assert story.aborted() == [(run, "cancel")]
    story.obeys(run)
    expected = (Release, "cancelled") if budget else (Finish, "not handed over")
    assert (outcome(story)[0], outcome(story)[2]) == expected
