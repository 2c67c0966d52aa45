"""`anarchon next`: the slots, the clock changes between them, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from anarchon._tzdata import tzdata_version
from anarchon.schedules import Cron
from tests.cli.runner import run


def said(*words: str) -> list[str]:
    """Return the lines of the output, without the edition of the time zone data."""
    status, out, err = run("next", *words)
    assert (status, err) == (0, "")
    return [line.replace(tzdata_version(), "EDITION") for line in out.splitlines()]


def answered(*words: str) -> dict:
    status, out, err = run("next", *words, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def refusal(*words: str) -> str:
    status, out, err = run("next", *words)
    assert (status, out) == (2, "")
    return err


ATHENS = ("--timezone", "Europe/Athens")


# --- the table ---


def test_the_table_of_a_gap():
    assert said("30 3 * * *", *ATHENS, "-n", "4", "--after", "2026-03-27T00:00Z") == [
        "at 03:30, every day (Europe/Athens)",
        "zone Europe/Athens, tzdata EDITION, after 2026-03-27 00:00:00Z",
        "",
        "#  local time                   UTC                since previous  clock",
        "1  Fri 2026-03-27 03:30 +02:00  2026-03-27 01:30Z  in 1h30m",
        "2  Sat 2026-03-28 03:30 +02:00  2026-03-28 01:30Z  +1d",
        "   clocks go forward 1h at 2026-03-29 03:00 → 04:00 EEST",
        "3  Sun 2026-03-29 04:00 +03:00  2026-03-29 01:00Z  +23h30m         stands for 03:30",
        "4  Mon 2026-03-30 03:30 +03:00  2026-03-30 00:30Z  +23h30m",
    ]


def test_the_table_of_a_repeated_hour():
    assert said("*/30 * * * *", *ATHENS, "--count", "4", "--after", "2026-10-25T02:45+03:00") == [
        "every 30 minutes (Europe/Athens)",
        "zone Europe/Athens, tzdata EDITION, after 2026-10-24 23:45:00Z",
        "",
        "#  local time                   UTC                since previous  clock",
        "1  Sun 2026-10-25 03:00 +03:00  2026-10-25 00:00Z  in 15m          first pass",
        "2  Sun 2026-10-25 03:30 +03:00  2026-10-25 00:30Z  +30m            first pass",
        "   clocks go back 1h at 2026-10-25 04:00 → 03:00 EET",
        "3  Sun 2026-10-25 03:00 +02:00  2026-10-25 01:00Z  +30m            second pass",
        "4  Sun 2026-10-25 03:30 +02:00  2026-10-25 01:30Z  +30m            second pass",
    ]


def test_many_clock_changes_are_counted():
    lines = said("0 0 29 2 *", *ATHENS, "-n", "2", "--after", "2027-01-01T00:00Z")
    assert lines[5] == (
        "   clocks change 8 times, at last: clocks go back 1h at 2031-10-26 04:00 → 03:00 EET"
    )


def test_two_clock_changes_have_a_line_each():
    lines = said("0 0 1 1 *", *ATHENS, "-n", "2", "--after", "2026-12-01T00:00Z")
    assert [line for line in lines if "clocks" in line] == [
        "   clocks go forward 1h at 2027-03-28 03:00 → 04:00 EEST",
        "   clocks go back 1h at 2027-10-31 04:00 → 03:00 EET",
    ]


def test_a_day_that_was_left_out():
    words = ("--timezone", "Pacific/Apia", "-n", "2", "--after", "2011-12-30T00:00Z")
    stands = "stands for 2011-12-30 08:30 and later"
    assert said("30 8,9 * * *", *words)[4:] == [
        f"1  Sat 2011-12-31 00:00 +14:00  2011-12-30 10:00Z  in 10h          {stands}",
        "2  Sat 2011-12-31 08:30 +14:00  2011-12-30 18:30Z  +8h30m",
    ]


def test_an_interval_is_shown_in_the_zone_that_is_asked_for():
    assert said("90m", *ATHENS, "-n", "1", "--after", "2026-07-01T00:00Z")[-1] == (
        "1  Wed 2026-07-01 04:30 +03:00  2026-07-01 01:30Z  in 1h30m"
    )


def test_seconds_and_milliseconds_are_shown_where_there_are_some():
    lines = said("750ms", "-n", "2", "--after", "2026-07-01T00:00:59.9+00:00")
    assert lines[4:] == [
        "1  Wed 2026-07-01 00:01:00.000 +00:00  2026-07-01 00:01:00.000Z  in 100ms",
        "2  Wed 2026-07-01 00:01:00.750 +00:00  2026-07-01 00:01:00.750Z  +750ms",
    ]
    assert " 00:00:30 +00:00 " in said("30 0 0 * * *", "-n", "1")[-1]


def test_the_latest_slot_comes_first_when_it_is_asked_for():
    lines = said("0 8 * * 1-5", "--latest", "-n", "1", "--after", "2026-11-29T12:00:00.5Z")
    assert lines[3:] == [
        "#       local time                   UTC                since previous  clock",
        "latest  Fri 2026-11-27 08:00 +00:00  2026-11-27 08:00Z  2d4h ago",
        "1       Mon 2026-11-30 08:00 +00:00  2026-11-30 08:00Z  in 19h59m59s",
    ]


def test_a_slot_at_the_time_itself_is_the_latest_and_not_the_next():
    found = answered("0 8 * * *", "--latest", "-n", "1", "--after", "2026-11-29T08:00Z")
    assert found["latest"]["utc"] == "2026-11-29T08:00:00.000Z"
    assert found["slots"][0]["utc"] == "2026-11-30T08:00:00.000Z"


def test_a_schedule_that_ends_says_so():
    after = ("--after", "2026-12-31T12:00Z")
    assert said("0 0 0 1 1 * 2027", *after)[-2:] == [
        "1  Fri 2027-01-01 00:00 +00:00  2027-01-01 00:00Z  in 12h",
        "No more slots.",
    ]
    assert said("0 0 0 1 1 * 2020", *after)[3:] == ["No slots after that."]
    assert "No slot up to 2026-12-31 12:00:00Z." in said("0 0 0 1 1 * 2027", "--latest", *after)


def test_by_default_it_is_five_slots_from_now_on():
    before = datetime.now(UTC)
    found = answered("100ms")
    assert before - timedelta(seconds=1) < datetime.fromisoformat(found["after"])
    first = datetime.fromisoformat(found["slots"][0]["utc"])
    assert before - timedelta(seconds=1) < first < datetime.now(UTC) + timedelta(seconds=1)
    assert len(found["slots"]) == 5
    assert found["timezone"] == "UTC"


def test_without_the_words_the_text_itself_is_the_heading(monkeypatch):
    monkeypatch.setitem(sys.modules, "cron_descriptor", None)
    assert said("0 8 * * *", "-n", "1")[0] == "0 8 * * *"
    assert answered("0 8 * * *")["description"] is None


# --- JSON ---


def test_the_json_object():
    words = ("-n", "2", "--latest", *ATHENS, "--after", "2027-03-27T12:00:00Z")
    slot = {"slot": 1806109200000, "utc": "2027-03-27T01:00:00.000Z"}
    assert answered("0 2,3 * * *", *words) == {
        "schedule": "0 2,3 * * *",
        "description": "at 02:00 and 03:00, every day (Europe/Athens)",
        "timezone": "Europe/Athens",
        "tzdata": tzdata_version(),
        "after": "2027-03-27T12:00:00.000Z",
        "latest": {**slot, "local": "2027-03-27T03:00:00.000+02:00", "marks": []},
        "slots": [
            {
                "slot": 1806192000000,
                "utc": "2027-03-28T00:00:00.000Z",
                "local": "2027-03-28T02:00:00.000+02:00",
                "marks": [],
            },
            {
                "slot": 1806195600000,
                "utc": "2027-03-28T01:00:00.000Z",
                "local": "2027-03-28T04:00:00.000+03:00",
                "marks": ["gap"],
                "left_out": "2027-03-28T03:00:00",
            },
        ],
        "clock_changes": [
            {
                "at": 1806195600000,
                "utc": "2027-03-28T01:00:00.000Z",
                "from": "2027-03-28T03:00:00",
                "to": "2027-03-28T04:00:00",
                "name": "EEST",
            }
        ],
        "ended": False,
    }


def test_the_json_of_a_schedule_without_slots():
    found = answered("0 0 0 1 1 * 2097", "--latest", "--after", "2026-01-01T00:00Z", "-n", "2")
    assert (found["latest"], len(found["slots"]), found["ended"]) == (None, 1, True)
    assert "latest" not in answered("1h")


@pytest.mark.parametrize("zone", ["Europe/Athens", "Australia/Lord_Howe", "Africa/Casablanca"])
@pytest.mark.parametrize("expression", ["15 2 * * *", "*/20 1-3 * * *", "0 */2 * * *"])
def test_marks_of_a_thousand_slots(zone, expression):
    """A repeated time is marked, and a time that no field names stands for others."""
    found = answered(expression, "--timezone", zone, "-n", "1000", "--after", "2026-03-01T00:00Z")
    walls = Cron(expression)  # in UTC, wall times are instants
    changes = [change["utc"] for change in found["clock_changes"]]
    for slot in found["slots"]:
        local = datetime.fromisoformat(slot["utc"]).astimezone(ZoneInfo(zone))
        wall = local.replace(tzinfo=UTC)
        if local.replace(fold=0).utcoffset() > local.replace(fold=1).utcoffset():
            assert slot["marks"] == ["second-pass" if local.fold else "first-pass"], slot
        elif walls.latest(wall) != wall:
            assert slot["marks"] == ["gap"], slot
        else:
            # A time of its own, which may stand for others as well.
            assert slot["marks"] == ["gap"] * ("left_out" in slot), slot
        if slot["marks"] == ["gap"]:
            left_out = datetime.fromisoformat(slot["left_out"]).replace(tzinfo=UTC)
            assert slot["utc"] in changes
            assert walls.latest(left_out) == left_out < wall
    assert changes


def test_a_recurrence_in_its_own_zone_with_a_gap():
    rule = "DTSTART;TZID=Europe/Athens:20260327T033000\\nRRULE:FREQ=DAILY;COUNT=3"
    lines = said(rule, "--after", "2026-03-28T12:00Z")
    assert lines[1].startswith("zone Europe/Athens, ")
    assert lines[4:] == [
        "1  Sun 2026-03-29 04:00 +03:00  2026-03-29 01:00Z  in 13h          stands for 03:30",
        "No more slots.",
    ]


# --- what is refused ---


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["61 * * * *"], "anarchon next: cron expression '61 * * * *': minute 61: out of range"),
        (["nope"], "cron expression 'nope': it has 1 field; write 5"),
        ([""], "cron expression '': it has 0 fields; write 5"),
        (["10x"], "anarchon next: interval: '10x' is not a duration"),
        (["1ms"], "interval: '1ms' is too short; give at least \"100ms\""),
        (["@daily", "--timezone", "Athens"], 'did you mean "Europe/Athens"?'),
        (["1h", "--timezone", "Athens"], 'did you mean "Europe/Athens"?'),
        (["DTSTART:nonsense"], "anarchon next: rrule 'DTSTART:nonsense'"),
        (["1h", "-n", "0"], "0 is not in the range 1<=x<=1000"),
        (["1h", "-n", "1001"], "1001 is not in the range 1<=x<=1000"),
        ([], "Missing argument 'SCHEDULE...'"),
    ],
)
def test_what_is_refused(words, reason):
    assert reason in refusal(*words)


def test_a_refusal_is_one_line():
    assert re.fullmatch("anarchon next: [^\n]+\n", refusal("61 * * * *"))
