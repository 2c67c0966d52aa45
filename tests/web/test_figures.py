"""Durations, times and figures, in numbers."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from anarchon._runs import Run
from anarchon._values import instant
from anarchon.web._figures import numbers, stories, strip, timeline
from anarchon.web._words import iso, printable, relative, span, stamp
from tests.web.conftest import NOON, NOON_MS


def run(slot=0, status="success", *, attempt=1, late=0, took=100, job="j", token="", **more):
    """Return an attempt; `late` None: it never began, `took` None: nobody knows when it ended."""
    begun = None if late is None else instant(NOON_MS + slot + late)
    ended = None if begun is None or took is None else begun + timedelta(milliseconds=took)
    run_id = token or f"{job}@{NOON_MS + slot}"
    return Run(
        run_id,
        job,
        NOON_MS + slot,
        instant(NOON_MS + slot),
        attempt,
        status,
        manual=bool(token),
        started_at=begun,
        finished_at=ended,
        duration_ms=None if ended is None else took,
        **more,
    )


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (4240, "4.2 s"),
        (9960, "10 s"),
        (59_400, "59 s"),
        (59_600, "1 m"),
        (200_000, "3 m 20 s"),
        (3_600_000, "1 h"),
        (3_601_000, "1 h"),
        (5_400_000, "1 h 30 m"),
        (90_000_000, "1 d 1 h"),
        (40 * 86_400_000, "40 d"),
    ],
)
def test_a_duration_has_two_units_at_most(ms, words):
    assert span(ms) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (0.5, "now"),
        (-0.5, "now"),
        (5, "in 5 s"),
        (-5, "5 s ago"),
        (65, "in 1 m 5 s"),
        (3599, "in 59 m"),
        (-86_400 * 3, "3 d ago"),
        (86_400 * 12 + 7200, "in 12 d"),
    ],
)
def test_how_far_an_instant_is(seconds, words):
    assert relative(NOON + timedelta(seconds=seconds), NOON) == words


def test_instants():
    assert (stamp(NOON), iso(NOON)) == ("2026-10-10 12:00:00", "2026-10-10T12:00:00.000Z")
    assert stamp(NOON + timedelta(milliseconds=7)) == "2026-10-10 12:00:00.007"


def test_what_would_turn_a_text_round_is_written_out():
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable("\x00\x1b[31m\u202eevil\ud800") == r"\x00\x1b[31m\u202eevil\ud800"
    assert printable("דוח 🦄 é") == "דוח 🦄 é"


def test_attempts_of_one_run_are_one_story():
    told = stories([run(2, attempt=2), run(2), run(1, token="b"), run(1, token="a"), run(1)])
    assert [[one.attempt for one in story.runs] for story in told] == [[1, 2], [1], [1], [1]]
    assert told[0].last.attempt == 2
    assert [story.last.run_id for story in told[1:]] == ["b", "a", f"j@{NOON_MS + 1}"]


def test_lateness_is_that_of_the_first_attempt():
    [story] = stories([run(attempt=2, late=9000, reason="takeover"), run(late=40)])
    assert (story.late_ms, story.takeovers) == (40, 1)
    # Its first attempt is on the page before.
    assert stories([run(attempt=2, late=9000)])[0].late_ms is None
    assert stories([run(late=None)])[0].late_ms is None
    assert stories([run(late=-3)])[0].late_ms == 0  # clocks differ


def test_a_strip_is_the_newest_runs_oldest_first():
    figure = strip(stories(run(-back, "failed" if back % 2 else "success") for back in range(9)), 4)
    assert [bar.last.slot - NOON_MS for bar in figure.bars] == [-3, -2, -1, 0]
    assert figure.words == "The last 4 runs: 2 failed, 2 success"
    assert strip([], 4).words == "No runs yet"


def test_lanes_are_on_one_axis():
    told = stories([run(2, late=500, took=500), run(1, late=0, took=250)])
    figure = timeline(told, NOON_MS)
    assert not figure.logarithmic
    (late, wide), (begun,) = (lane.marks for lane in figure.lanes)
    assert (late.kind, late.x, late.width) == ("late", 0, 49)
    assert (wide.kind, wide.x, wide.width) == ("attempt", 49, 49)
    assert (begun.x, begun.width) == (0, 24.5)
    assert [(tick.x, tick.words) for tick in figure.ticks] == [
        (0, "0"), (49, "500 ms"), (98, "1 s")
    ]  # fmt: skip
    assert [tick.end for tick in figure.ticks] == [False, False, True]


def test_a_takeover_follows_a_gap():
    runs = [run(attempt=2, late=8000, took=2000, reason="takeover", instance_id="web-2"), run()]
    [lane] = timeline(stories(runs), NOON_MS).lanes
    assert [mark.kind for mark in lane.marks] == ["attempt", "gap", "attempt", "takeover"]
    assert lane.marks[3].words == "taken over by web-2"
    assert lane.marks[1].x + lane.marks[1].width == lane.marks[2].x == 78.4


def test_an_attempt_that_was_lost_reaches_to_the_one_after_it():
    runs = [run(attempt=2, late=8000, took=2000, reason="takeover"), run(status="lost", took=None)]
    [lane] = timeline(stories(runs), NOON_MS).lanes
    assert [mark.kind for mark in lane.marks] == ["attempt", "attempt", "takeover"]
    assert lane.marks[0].width == 78.4


def test_one_that_goes_on_reaches_to_now():
    told = stories([run(1000, took=1000), run(status="running", took=None)])
    figure = timeline(told, NOON_MS + 4000)
    assert figure.lanes[1].marks[0].width == 98
    assert figure.lanes[0].marks[0].width == 24.5


def test_what_never_began_is_a_mark_at_the_edge():
    figure = timeline(stories([run(status="skipped", late=None, detail="overlap")]), NOON_MS)
    [mark] = figure.lanes[0].marks
    assert (mark.kind, mark.x, mark.words) == ("nothing", 0, "skipped (overlap)")
    assert timeline([], NOON_MS).lanes == ()


def test_one_that_waited_for_an_hour_makes_no_points_of_the_others():
    quick = [run(-back, took=200) for back in range(1, 20)]
    figure = timeline(stories([run(late=3_600_000), *quick]), NOON_MS)
    assert figure.logarithmic
    assert min(lane.marks[-1].width for lane in figure.lanes[1:]) > 1
    places = [tick.x for tick in figure.ticks]
    assert places == sorted(places)
    assert all(after - before >= 14 for before, after in pairwise(places))


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (82_000, ["0", "30 s", "1 m"]),
        (9000, ["0", "5 s"]),
        (8000, ["0", "2 s", "4 s", "6 s", "8 s"]),
        (5 * 3_600_000, ["0", "2 h", "4 h"]),
        (12 * 86_400_000, ["0", "5 d", "10 d"]),
    ],
)
def test_ticks_are_round_times(most, words):
    figure = timeline(stories([run(took=most)]), NOON_MS)
    assert [tick.words for tick in figure.ticks] == words


@pytest.mark.parametrize("most", [1, 3, 40, 999, 5000, 61_000, 3_600_000, 10**9, 10**12])
def test_there_are_a_few_ticks_whatever_is_shown(most):
    for more in ([], [run(-1, took=1)] * 5):
        figure = timeline(stories([run(took=most), *more]), NOON_MS)
        assert 1 <= len(figure.ticks) <= 7, figure.ticks
        assert all(0 <= tick.x <= 98 for tick in figure.ticks)


def test_runs_in_numbers():
    told = stories([
        run(6, "running", took=None),
        run(5, "skipped", late=None),
        run(4, "failed", took=50),
        run(3, took=300, late=4000),
        run(2, attempt=2, late=9000, took=100, reason="takeover"),
        run(2, "lost", took=None),
        run(1, token="a", late=60_000),
        run(0),
    ])  # fmt: skip
    found = numbers(told)
    assert (found.runs, found.success_percent, found.takeovers) == (7, 80, 1)
    assert (found.median_ms, found.longest_ms, found.latest_ms) == (100, 300, 4000)
    assert numbers([]).success_percent is None


def test_a_backfilled_slot_is_days_late_and_makes_no_points_of_the_others():
    backfilled = run(late=86_400_000, took=80, token="backfill-1-1", reason="catch-up")
    told = stories([run(slot=1000, late=20), backfilled])
    lanes = timeline(told, NOON_MS)
    assert not lanes.logarithmic
    widths = [mark.width for lane in lanes.lanes for mark in lane.marks if mark.kind == "attempt"]
    assert widths == pytest.approx([81.67, 65.33], abs=0.1)
    assert [mark.kind for mark in lanes.lanes[1].marks] == ["attempt"]
    # One that was triggered waits for somebody to hear of it, which is seen.
    waited = stories([run(late=60_000, token="trigger-1", reason="manual")])
    assert [mark.kind for mark in timeline(waited, NOON_MS).lanes[0].marks] == ["late", "attempt"]
    assert numbers(told).latest_ms == 20
