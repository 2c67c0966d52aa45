"""What the demo says about its runs, whatever became of them."""

from __future__ import annotations

import io
import signal
from types import SimpleNamespace

import pytest

from anarchon._demo_screen import Screen
from anarchon._demo_show import Act, Attempt
from anarchon._demo_summary import show_summary, tally
from anarchon._runs import Run
from anarchon._values import instant

NAMES = {"host:1": "one", "host:2": "two"}
SLOT = 1_790_000_000_000


def run(slot, status, by=1, attempt=1, reason="scheduled"):
    ms = SLOT + slot * 1000
    began = instant(ms + 5 + 1000 * attempt)
    what = {"instance_id": f"host:{by}", "reason": reason, "started_at": began}
    return Run(f"report@{ms}", "report", ms, instant(ms), attempt, status, **what)


def show(*acts, given_up=()):
    return SimpleNamespace(
        acts={act.signum: act for act in acts}, given_up=set(given_up), names=NAMES
    )


def act(signum, *, slot, victim=1, successor=None, seconds=1.0):
    ms = SLOT + slot * 1000
    first = Attempt(NAMES[f"host:{victim}"], f"host:{victim}", ms, 1, ms + 1005)
    then = successor and Attempt("two", "host:2", ms, 2, ms + round(seconds * 1000) + 1005)
    return Act(signum, first, ms + 1005, then)


def summary(shown, history):
    out = io.StringIO()
    good = show_summary(Screen(out), shown, {"report": history})
    return good, " ".join(out.getvalue().split())


@pytest.mark.parametrize(
    ("history", "text"),
    [
        ([], "0 slots, none completed"),
        ([run(1, "success")], "1 slot, 1 completed exactly once (one 1)"),
        ([run(1, "running")], "1 slot, none completed, 1 not completed when the demo ended"),
        (
            [run(1, "lost"), run(1, "success", 2, 2), run(2, "success"), run(3, "skipped")],
            (
                "3 slots, 2 completed exactly once (one 1, two 1), "
                "1 skipped because the run before was still going on"
            ),
        ),
        (
            [run(1, "success"), run(1, "success", 2, 2)],
            "1 slot, none completed, 1 completed more than once",
        ),
    ],
)
def test_the_slots_are_counted(history, text):
    assert tally("report", history, NAMES) == f"report: {text}"


HANDED_OVER = [run(1, "interrupted"), run(1, "success", 2, 2, "takeover")]
TAKEN_OVER = [run(2, "lost"), run(2, "success", 2, 2, "takeover")]
BOTH = (
    act(signal.SIGTERM, slot=1, successor=True),
    act(signal.SIGKILL, slot=2, successor=True, seconds=7),
)


def test_both_were_seen():
    good, text = summary(show(*BOTH), HANDED_OVER + TAKEN_OVER)
    assert good
    assert text.endswith("Both a hand-over and a takeover were seen in time.")


def test_the_time_was_over_before_the_first_act():
    good, text = summary(show(), [])
    assert not good
    assert "hand-over: not shown: the time was over before an instance had run report" in text
    assert text.endswith("Not shown in that time: hand-over and takeover. Give more --minutes.")


def test_the_time_was_over_in_the_middle_of_an_act():
    cut = act(signal.SIGKILL, slot=2)
    good, text = summary(show(BOTH[0], cut), [*HANDED_OVER, run(2, "running")])
    assert not good
    assert "before another instance went on, after one was killed" in text
    assert text.endswith("Not shown in that time: takeover. Give more --minutes.")


def test_nobody_went_on_though_there_was_time_enough():
    cut = act(signal.SIGKILL, slot=2)
    shown = show(BOTH[0], cut, given_up=[signal.SIGKILL])
    good, text = summary(shown, [*HANDED_OVER, run(2, "running")])
    assert not good
    assert text.endswith("Not seen as promised: takeover.")


def test_nobody_ran_report_though_there_was_time_enough():
    _, text = summary(show(BOTH[0], given_up=[signal.SIGKILL]), HANDED_OVER)
    assert "takeover: not seen, because no instance ran report" in text


@pytest.mark.parametrize(
    ("acts", "history", "says"),
    [
        (BOTH, HANDED_OVER[:1] + TAKEN_OVER, "no other instance went on with the run"),
        (BOTH, [run(1, "lost"), *HANDED_OVER[1:], *TAKEN_OVER], "is recorded as lost"),
        (
            BOTH,
            [HANDED_OVER[0], run(1, "success", 1, 2, "takeover"), *TAKEN_OVER],
            "that is no hand-over by another instance",
        ),
        (
            (act(signal.SIGTERM, slot=1, successor=True, seconds=2.1), BOTH[1]),
            HANDED_OVER + TAKEN_OVER,
            "that is too late",
        ),
    ],
)
def test_what_was_not_as_promised_is_said(acts, history, says):
    good, text = summary(show(*acts), history)
    assert not good
    assert says in text
    assert text.endswith("Not seen as promised: hand-over.")
