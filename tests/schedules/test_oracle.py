"""The oracle is right about every worked example, and owes the package nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.schedules import oracle
from tests.schedules.reading import Refused
from tests.schedules.vectors import VECTORS, following, ms

HERE = Path(__file__).resolve().parent
PARTS = ["oracle.py", "reading.py", "recurring.py"]
ALLOWED = {
    *("__future__", "calendar", "collections.abc", "datetime", "functools", "itertools"),
    *("typing", "zoneinfo", ".oracle", ".reading", ".recurring"),
}
# Asks for one slot of each kind, where nothing of the package and of its libraries can be had.
ALONE = """
import sys
for name in ("anarchon", "croniter", "dateutil"):
    sys.modules[name] = None
from tests.schedules import oracle
print(oracle.define("cron", "30 2 * * *", "Europe/Berlin").next_after(1774692000000))
print(oracle.define("interval", "10s", None).next_after(0))
print(oracle.define("once", "2026-03-29T02:30:00", "Europe/Berlin").latest(1774746000000))
text = "DTSTART:20260328T023000\\nRRULE:FREQ=DAILY"
print(oracle.define("rrule", text, "Europe/Berlin").next_after(1774692000000))
"""


def test_every_worked_example():
    assert len(VECTORS) == 504
    wrong = []
    for vector in VECTORS:
        kind, text, zone, t_ms = vector.case
        try:
            slots = oracle.define(kind, text, zone)
        except Refused:
            if vector.expect is not None:
                wrong.append((vector.name, "refused"))
            continue
        if vector.expect is None:
            wrong.append((vector.name, "accepted"))
            continue
        found = following(slots.next_after, t_ms)
        latest = vector.latest if vector.latest is False else slots.latest(t_ms)
        if (found, latest) != (vector.expect, vector.latest):
            wrong.append((vector.name, found, latest))
    assert not wrong


@pytest.mark.parametrize("name", PARTS)
def test_it_imports_nothing_of_what_it_judges(name):
    found = set()
    for node in ast.walk(ast.parse((HERE / name).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    assert found <= ALLOWED


def test_it_works_where_there_is_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    gap = ms("2026-03-29T01:00:00Z")
    assert done.stderr == ""
    assert done.stdout.split() == [str(gap), "10000", str(gap), str(gap)]


@pytest.mark.parametrize(
    ("text", "zone", "t", "expected"),
    [
        # Where the answer can be checked by hand: a gap, an overlap in both manners, a lost day.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"),
        ("* 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2012-12-29T22:00:00Z"),
    ],
)
def test_answers_that_can_be_seen(text, zone, t, expected):
    assert oracle.define("cron", text, zone).next_after(ms(t)) == ms(expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # Examples of RFC 5545, in UTC.
        (
            "DTSTART:19970905T090000\nRRULE:FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
            ["19970905", "19971003", "19971107", "19971205", "19980102"],
        ),
        (
            "DTSTART:19970902T090000\nRRULE:FREQ=MONTHLY;BYMONTHDAY=2,15;COUNT=10",
            ["19970902", "19970915", "19971002", "19971015", "19971102"],
        ),
        (
            "DTSTART:19970805T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
            ["19970805", "19970817", "19970819", "19970831"],
        ),
        (
            "DTSTART:19970805T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
            ["19970805", "19970810", "19970819", "19970824"],
        ),
        (
            "DTSTART:19970904T090000\nRRULE:FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
            ["19970904", "19971007", "19971106"],
        ),
        (
            (
                "DTSTART:19961105T090000\n"
                "RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8"
            ),
            ["19961105", "20001107", "20041102"],
        ),
        (
            "DTSTART:19970519T090000\nRRULE:FREQ=YEARLY;BYDAY=20MO",
            ["19970519", "19980518", "19990517"],
        ),
    ],
)
def test_examples_of_the_standard(lines, expected):
    slots = oracle.define("rrule", lines, "UTC")
    found = following(slots.next_after, ms("1990-01-01T00:00:00Z"), len(expected))
    assert found == [ms(f"{day}T090000Z") for day in expected]
