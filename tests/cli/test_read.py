"""What the words of `anarchon next` mean: kinds of schedules, local times, stdin."""

from __future__ import annotations

import io
import json
import sys

import pytest

from anarchon._cli_read import read_schedule
from anarchon.schedules import Cron, Every, Once, RRule
from tests.cli.runner import run

BERLIN = ("--timezone", "Europe/Berlin")
UNITS = "write ASCII digits and a unit (ms, s, m, h, d, w)"


def said(*words: str) -> list[str]:
    status, out, err = run("next", *words)
    assert (status, err) == (0, "")
    return out.splitlines()


def refusal(*words: str) -> str:
    status, out, err = run("next", *words)
    assert (status, out) == (2, "")
    return err


def after(*words: str) -> str:
    """Return the instant after which slots are shown."""
    status, out, err = run("next", "1h", "--json", *words)
    assert (status, err) == (0, "")
    return json.loads(out)["after"]


# --- kinds of schedules ---


@pytest.mark.parametrize(
    ("text", "zone", "schedule"),
    [
        ("90m", None, Every("90m")),
        (" 1h30m ", "Europe/Athens", Every("90m")),
        ("every 90m", None, Every("90m")),
        ("Every  5m", "Europe/Athens", Every("5m")),
        ("@daily", None, Cron("@daily")),
        ("0 8 * * *", "Europe/Athens", Cron("0 8 * * *", "Europe/Athens")),
        ("0 8 1 jan mon", None, Cron("0 8 1 jan mon")),
        ("0 0 0 1 1 * 2030-2031", None, Cron("0 0 0 1 1 * 2030-2031")),
        ("0-30/10 8 * * *", None, Cron("0-30/10 8 * * *")),
        ("2030-05-06T09:00:00+02:00", None, Once("2030-05-06T07:00Z")),
        ("2030-05-06T09:00:00+02:00", "Europe/Athens", Once("2030-05-06T07:00Z")),
        ("2030-05-06T09:00", "Europe/Berlin", Once("2030-05-06T07:00Z")),
        ("2030-05-06 09:00", "Europe/Berlin", Once("2030-05-06T07:00Z")),
        (
            "DTSTART:20261201T090000\\nRRULE:FREQ=DAILY",
            "Europe/Athens",
            RRule("DTSTART:20261201T090000\nRRULE:FREQ=DAILY", "Europe/Athens"),
        ),
        (
            "dtstart;TZID=Europe/Athens:20261201T090000\nrrule:freq=daily",
            None,
            RRule("DTSTART;TZID=Europe/Athens:20261201T090000\nRRULE:FREQ=DAILY"),
        ),
    ],
)
def test_what_a_text_means(text, zone, schedule):
    assert read_schedule(text, zone) == schedule


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["RRULE:FREQ=DAILY"], "rrule 'RRULE:FREQ=DAILY': there is no DTSTART"),
        (["FREQ=DAILY"], "rrule 'FREQ=DAILY': "),
        (["freq=weekly;byday=mo"], "rrule 'freq=weekly;byday=mo': "),
        (["BEGIN:VEVENT"], "rrule 'BEGIN:VEVENT': "),
        (["DTSTART;TZID=Romance Standard Time:20300101T090000"], "--timezone"),
        (["EXDATE:20300101"], "rrule 'EXDATE:20300101': "),
        (["1h 30m"], f"interval: '1h 30m' is not a duration; {UNITS}"),
        (["1h", "30m"], f"interval: '1h 30m' is not a duration; {UNITS}"),
        (["PT1H"], f"interval: 'PT1H' is not a duration; {UNITS}"),
        (["p1d"], f"interval: 'p1d' is not a duration; {UNITS}"),
        (["5 minutes"], f"interval: '5 minutes' is not a duration; {UNITS}"),
        (["1.5h"], f"interval: '1.5h' is not a duration; {UNITS}"),
        (["30"], f"interval: '30' is not a duration; {UNITS}"),
        (["every day"], f"interval: 'day' is not a duration; {UNITS}"),
        (["every"], f"interval: '' is not a duration; {UNITS}"),
        (["2030-05-06T09:00"], "has no offset; add one (Z for UTC) or give --timezone"),
        (["2030-05-06 09:00"], "has no offset; add one (Z for UTC) or give --timezone"),
        (["2030-05-06"], "one-off time '2030-05-06' is not an ISO date with a time"),
        (["20300506T090000Z"], "one-off time '20300506T090000Z' is not an ISO date with a time"),
        (["2030-05-06T25:00", *BERLIN], "one-off time '2030-05-06T25:00' is not an ISO date"),
        (["2030-05-06T09:00Z", "--tz", "Athens"], 'did you mean "Europe/Athens"?'),
        (["0", "8", "*", "*", "*"], 'it has 5 words; put the schedule in quotes: "0 8 * * 1-5"'),
        (["every", "5m", "--tz", "Athens"], 'did you mean "Europe/Athens"?'),
    ],
)
def test_a_text_that_is_wrong_is_told_what_it_was_taken_for(words, reason):
    err = refusal(*words)
    assert reason in err
    assert "cron expression" not in err


def test_an_interval_may_be_two_words():
    assert said("every", "5m", "-n", "1", "--after", "2030-01-01")[0] == "every 5m"


def test_a_one_off_is_shown_in_the_zone_asked_for():
    words = ("--tz", "Europe/Berlin", "--after", "2030-05-06")
    lines = said("2030-05-06T07:00Z", *words)
    assert lines[0] == "once at 2030-05-06T07:00:00Z"
    assert lines[4:] == [
        "1  Mon 2030-05-06 09:00 +02:00  2030-05-06 07:00Z  in 9h",
        "No more slots.",
    ]
    assert said("2030-05-06T09:00", *words) == lines
    assert said("2030-05-05T09:00", *words)[-1] == "No slots after that."


def test_a_one_off_in_a_gap_says_what_it_stands_for():
    lines = said("2030-03-31T02:30", *BERLIN, "--after", "2030-03-31")
    assert lines[4] == (
        "1  Sun 2030-03-31 03:00 +02:00  2030-03-31 01:00Z  in 2h           stands for 02:30"
    )


# --- stdin ---


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("DTSTART:20300101T090000\r\nRRULE:FREQ=DAILY\r\n", "FREQ=DAILY from 2030-01-01 09:00:00"),
        ("0 8 * * *\n", "at 08:00, every day"),
        ("every 5m", "every 5m"),
    ],
)
def test_a_minus_reads_stdin(text, description, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text, newline=""))
    assert said("-", "-n", "1")[0] == description


class Endless(io.StringIO):
    """More than anybody wants to read."""

    def read(self, size=-1):
        assert 0 < size < 100_000
        return "x" * size


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        (io.StringIO(" \n"), "stdin is empty"),
        (None, "stdin is empty"),
        (io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"), "what stdin brings is no text"),
        (Endless(), "cron expression 'xxx"),
    ],
)
def test_a_stdin_without_a_schedule_is_refused(stdin, reason, monkeypatch):
    monkeypatch.setattr(sys, "stdin", stdin)
    assert reason in refusal("-")


# --- the time after which slots are shown ---


@pytest.mark.parametrize(
    ("words", "instant"),
    [
        (["2026-03-27"], "2026-03-27T00:00:00.000Z"),
        (["2026-03-27T10:00"], "2026-03-27T10:00:00.000Z"),
        (["2026-03-27", *BERLIN], "2026-03-26T23:00:00.000Z"),
        (["2026-03-27T10:00", *BERLIN], "2026-03-27T09:00:00.000Z"),
        (["2026-03-27T10:00:00.250", *BERLIN], "2026-03-27T09:00:00.250Z"),
        (["2026-03-27T10:00Z", *BERLIN], "2026-03-27T10:00:00.000Z"),
        (["2026-03-27T10:00+05:00", *BERLIN], "2026-03-27T05:00:00.000Z"),
        # In a gap, the first instant after it; of two passes, the first.
        (["2026-03-29T02:30", *BERLIN], "2026-03-29T01:00:00.000Z"),
        (["2026-10-25T02:30", *BERLIN], "2026-10-25T00:30:00.000Z"),
        # A day that begins with a gap.
        (["2026-09-06", "--tz", "America/Santiago"], "2026-09-06T04:00:00.000Z"),
    ],
)
def test_a_time_without_an_offset_is_local(words, instant):
    assert after("--after", *words) == instant


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["tomorrow"], "Invalid value for '--after': 'tomorrow' is no ISO date or time; write it"),
        ([""], "'' is no ISO date or time"),
        (["9999-12-31T23:00Z"], "give a year from 1971 to 8999"),
        (["1970-12-31"], "give a year from 1971 to 8999"),
        (["2026-03-27", "--timezone", "Athens"], 'did you mean "Europe/Athens"?'),
    ],
)
def test_a_time_that_is_none_is_refused(words, reason):
    assert reason in refusal("1h", "--after", *words)


@pytest.mark.parametrize("text", ["2026-12-01", "2026-12-01T09:00", "2026-12-01T09:00:00Z"])
def test_what_the_message_proposes_works(text):
    assert text in refusal("1h", "--after", "tomorrow")
    assert after("--after", text, *BERLIN)
