"""No question takes long, whatever the expression, the zone and the instant."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from calendar import isleap
from datetime import date
from pathlib import Path
from random import Random
from zoneinfo import TZPATH, available_timezones

import pytest

from anarchon.errors import ConfigurationError
from anarchon.schedules import Cron, RRule
from tests.schedules import fuzz
from tests.schedules.aware import Aware, nothing_aware
from tests.schedules.hard import HARD
from tests.schedules.steps import MOST_STEPS, Meter
from tests.schedules.sweep import Sweep, define
from tests.schedules.vectors import RIGHT, VECTORS, following, ms

ROOT = Path(__file__).resolve().parents[2]
FUZZ = 5000


@pytest.fixture
def meter():
    with Meter().running() as meter:
        yield meter


def test_the_meter_counts(meter):
    every_second = Cron("* * * * * *")
    assert meter.ask(every_second.next_after_ms, 0)[:2] == (1000, 2)  # the walk, and croniter
    # The fifth Friday of a February: the next is in 2036, so nine Februaries are passed over.
    fifth = Cron("0 0 * 2 5#5")
    answer, steps, _ = meter.ask(fifth.next_after_ms, ms("2026-03-01T00:00:00Z"))
    assert (answer, steps) == (ms("2036-02-29T00:00:00Z"), 10)


def test_the_worked_examples(meter):
    sweep = Sweep(meter)
    for vector in VECTORS:
        sweep.cost(vector.case)
    assert sweep.figures.cases == 504


@pytest.mark.serial
def test_what_could_take_long(meter):
    sweep = Sweep(meter)
    for case in HARD:
        assert define(case) is not None
        sweep.cost(case)
    assert sweep.figures.longest[0] > MOST_STEPS / 2  # so it is hard indeed


@pytest.mark.parametrize(
    ("expression", "zone", "t", "after", "latest"),
    [
        # Since 1981 the clocks go forward at just this time, and the rule stays.
        (
            *("* 30 2 * 3 SUNL", "Europe/Berlin", "2026-03-01T00:00:00Z"),
            *(None, "1980-03-30T01:30:59Z"),
        ),
        ("* 30 2 * 3 SUNL", "Europe/Berlin", "9000-01-01T00:00:00Z", None, "1980-03-30T01:30:59Z"),
        (
            *("* 30 2 * 3 0#2", "America/New_York", "2026-03-01T00:00:00Z"),
            *(None, "2006-03-12T07:30:59Z"),
        ),
        (
            *("*/30 30 2 * 3 0#2", "America/New_York", "2005-01-01T00:00:00Z"),
            *("2005-03-13T07:30:00Z", "2004-03-14T07:30:30Z"),
        ),
        # The 29th of February is left out in 2100.
        (
            *("0 0 * 2 5#5", "UTC", "2092-03-01T00:00:00Z"),
            *("2104-02-29T00:00:00Z", "2092-02-29T00:00:00Z"),
        ),
        (
            *("0 0 * 2 5#5", "UTC", "2070-01-01T00:00:00Z"),
            *("2092-02-29T00:00:00Z", "2064-02-29T00:00:00Z"),
        ),
        # All the years there are, and still no year before or after them.
        ("0 0 0 1 1 * 1970-2099", "UTC", "1928-01-01T00:00:00Z", "1970-01-01T00:00:00Z", None),
        ("0 0 0 1 1 * */1", "UTC", "2150-01-01T00:00:00Z", None, "2099-01-01T00:00:00Z"),
        # The last month that there is.
        (
            *("0 0 L 12 *", "UTC", "9999-12-01T00:00:00Z"),
            *("9999-12-31T00:00:00Z", "9998-12-31T00:00:00Z"),
        ),
    ],
)
def test_right_at_once(meter, expression, zone, t, after, latest):
    cron = Cron(expression, zone)
    found, steps, _ = meter.ask(cron.next_after_ms, ms(t))
    assert found == (after and ms(after))
    assert steps <= MOST_STEPS
    found, steps, _ = meter.ask(cron.latest_ms, ms(t))
    assert found == (latest and ms(latest))
    assert steps <= MOST_STEPS


@pytest.mark.parametrize(
    "rule",
    [
        # The 19th is no last Sunday of a year, and the 11th no last Saturday but one of a month.
        "FREQ=YEARLY;INTERVAL=5;BYMONTHDAY=19;BYDAY=-1SU",
        "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=11;BYDAY=-2SA,1TH",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    ],
)
def test_a_rule_that_never_comes_is_refused_at_once(meter, rule):
    begun = time.thread_time()
    with pytest.raises(ConfigurationError, match="no date ever matches"):
        RRule(f"DTSTART:20430620T123525\nRRULE:{rule}")
    assert time.thread_time() - begun < 1
    assert meter.steps <= 2 * MOST_STEPS  # it is tried twice: all years, and then the dates


def test_forty_years_hold_every_kind_of_year():
    kinds = [(date(year, 1, 1).weekday(), isleap(year)) for year in range(2000, 2441)]
    assert all(len(set(kinds[at : at + 40])) == 14 for at in range(400))
    assert any(len(set(kinds[at : at + 39])) < 14 for at in range(400))


def last_listed_change(data: bytes) -> int:
    """Return the last change that a file of time zone data lists by date."""
    counts = [int.from_bytes(data[at : at + 4]) for at in range(20, 44, 4)]
    assert data[:4] == b"TZif"
    isut, isstd, leap, times, types, letters = counts
    second = 44 + times * 5 + types * 6 + letters + leap * 8 + isstd + isut
    assert data[second : second + 4] == b"TZif"
    times = int.from_bytes(data[second + 32 : second + 36])
    listed = data[second + 44 : second + 44 + times * 8]
    return int.from_bytes(listed[-8:], signed=True) if listed else 0


def test_from_2100_on_each_zone_follows_one_rule():
    found = {}
    for key in available_timezones():
        for folder in TZPATH:
            file = Path(folder, key)
            if file.is_file():
                found[key] = last_listed_change(file.read_bytes())
                break
        else:
            import tzdata

            file = Path(tzdata.__file__).parent / "zoneinfo" / key
            found[key] = last_listed_change(file.read_bytes())
    assert len(found) > 400
    assert max(found.values()) * 1000 < ms("2100-01-01T00:00:00Z")


def test_garbage_is_refused_in_one_way_and_nothing_hangs(meter):
    tried = fuzz.Fuzz(meter)
    for number in range(FUZZ):
        tried.check(*fuzz.draw(Random(f"0:{number}")))
    assert tried.figures.tried == FUZZ
    assert FUZZ / 10 < tried.figures.accepted < FUZZ / 2


def test_no_zone_comes_to_the_libraries():
    with nothing_aware() as calls:
        for vector in RIGHT:
            schedule = define(vector.case)
            assert following(schedule.next_after_ms, vector.case.t_ms) == vector.expect
        assert calls() > len(RIGHT)


def test_a_zone_would_be_noticed():
    from datetime import UTC, datetime

    from croniter import croniter
    from dateutil.rrule import DAILY, rrule, rrulestr

    now = datetime(2026, 1, 1, tzinfo=UTC)
    with nothing_aware():
        for offence in (
            lambda: croniter("* * * * *", now),
            lambda: croniter("* * * * *", 0.0).get_next(float, start_time=now),
            lambda: rrule(DAILY, dtstart=now),
            lambda: rrulestr("DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:FREQ=DAILY"),
        ):
            with pytest.raises(Aware):
                offence()


@pytest.fixture(scope="module")
def printed():
    """What two processes print that have little in common."""
    program = f"import sys; sys.path.append({str(ROOT)!r})\n"
    program += "from tests.schedules.slots import main; main()"
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout
    turkish = "tr_TR.UTF-8" if "tr_TR.utf8" in known else "C"
    sides = [
        {"TZ": "Asia/Tokyo", "LC_ALL": turkish, "PYTHONHASHSEED": "1"},
        {"TZ": "America/New_York", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-X", "utf8", "-c", program],
            env={**os.environ, **side},
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for side in sides
    ]
    return [process.communicate()[0].splitlines() for process in processes]


def test_every_process_names_the_same_slots(printed):
    (one, *slots), (other, *same) = printed
    assert [one.split()[0], other.split()[0]] == ["JST", "EST"]
    assert one.split()[1] != other.split()[1]  # hashes differ as well
    assert slots == same
    assert len(slots) == 504 + 100
