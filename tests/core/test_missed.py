"""The slots that nobody ran: what is merged into an outage's record, and what must not be."""

from __future__ import annotations

from anarchon._core_missed import UNREACHABLE, Misses
from anarchon._messages import Now


def ready(misses: Misses) -> dict[int, str]:
    misses.collect(Now(1_000_000, 0.0))
    return {wish.key.slot_ms: wish.detail for wish in (*misses.ready(10), *misses.seeking(10))}


def test_an_answer_that_comes_late_joins_the_outage_and_drops_no_younger_slot():
    misses = Misses()
    misses.add("a", 20_000, 30_000, 40_000, UNREACHABLE)
    misses.add("a", 40_000, 40_000, 50_000, "not claimed in time")
    misses.add("a", 10_000, 10_000, 20_000, "not claimed in time")  # claimed before the outage
    assert ready(misses) == {
        30_000: "store unreachable; slots since 1970-01-01T00:00:10.000Z",
        40_000: "not claimed in time",
    }


def test_one_record_stands_for_all_that_was_missed_until_the_outage_ended():
    misses = Misses()
    misses.add("a", 10_000, 10_000, 20_000, "no free worker")
    misses.add("a", 20_000, 20_000, 30_000, UNREACHABLE)
    misses.add("a", 30_000, 30_000, 40_000, UNREACHABLE)
    assert ready(misses) == {30_000: "store unreachable; slots since 1970-01-01T00:00:10.000Z"}


def test_a_record_that_looks_for_its_place_is_merged_with_nothing():
    misses = Misses()
    misses.add("a", 50_000, 50_000, 60_000, UNREACHABLE)
    misses.add("a", 10_000, 20_000, 30_000, UNREACHABLE, tries=1)
    assert ready(misses) == {
        50_000: "store unreachable",
        20_000: "store unreachable; slots since 1970-01-01T00:00:10.000Z",
    }
