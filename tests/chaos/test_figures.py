"""The closing figures, and what is looked at besides the checker's rules."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.chaos.figures import unexplained, waits
from tests.chaos.invoices import Invoices
from tests.chaos.tales import SLOT, TERMS, Tale


def test_waits_are_measured_from_the_end_of_the_lease_and_from_that_of_the_attempt():
    dead = Tale().begin(10.0).renew(10.4).driver("killed", 10.5).driver("gone", 10.51)
    dead.record("lost", detail="taken over").run(13.5, 2, who="p2")
    found = waits(dead.story())
    assert found.takeovers == [pytest.approx(13.5 - 10.39 - TERMS.lease)]
    assert found.since_kill == [pytest.approx(3.0)]
    handed = Tale().begin(10.0).driver("asked", 11.0).abort(11.0).end(11.0, how="raised")
    handed.run(11.3, 2, who="p2")
    assert waits(handed.story()).hand_overs == [pytest.approx(0.3)]


def test_renewals_that_fail_count_when_nothing_was_in_their_way():
    tale = Tale().tell("unanswered", "p1", 10.2, sent=10.0).tell("unanswered", "p1", 20.2, sent=20)
    tale.driver("trouble", 19.0, number=1, what="reset").driver("mended", 19.5, number=1)
    assert [span.begin for span in unexplained(tale.story())] == [10.0]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([("tick", SLOT, 1)], []),
        ([], ["attempt 1: success without an invoice"]),
        ([("tick", SLOT, 1)] * 2, ["attempt 1: 1 invoices too many"]),
        ([("tick", SLOT, 1), ("tick", SLOT, 2)], ["attempt 2: 1 invoices too many"]),
        ([("tick", 20_000, 1), ("tick", SLOT, 1)], ["attempt 1: 1 invoices too many"]),
    ],
)
def test_each_success_has_one_invoice_and_nothing_else_has(tmp_path, rows, wrong):
    work = Invoices(str(tmp_path / "jobs.db"))
    work.prepare()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.executemany("INSERT INTO invoices VALUES (?, ?, ?)", rows)
        connection.commit()
    story = Tale().run().record("skipped", slot=20_000, detail="overlap").story()
    assert [violation.text for violation in work.check(story)] == wrong
