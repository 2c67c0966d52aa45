"""The fates of slots that the fleet was asked for: triggered, or backfilled afterwards."""

from __future__ import annotations

from tests.contract.fates import (
    HOUR,
    LEASE,
    ON_A,
    failed,
    nothing_for_a_while,
    outage,
    saturated,
    success,
)


def order(bench, name, *, reason):
    """Ask the fleet for a run of the slot."""
    key = bench.key(0)._replace(manual=name)
    bench.any.trigger([key], data=None)
    wish = bench.wish(0, budget=0, catch_up_ms=30 * 24 * HOUR, reason=reason)
    return key, wish._replace(key=key)


def ordered(bench, name, *, reason, by="b", **fields):
    """Ask the fleet for a run of the slot, and run it."""
    key, wish = order(bench, name, reason=reason)
    bench.claims(wish, by=by)
    bench.finish(0, key=key, by=by, reason=reason, **fields)


def triggered(bench):
    ordered(bench, "trigger-1", reason="manual")


def triggered_and_its_runner_died(bench):
    _, wish = order(bench, "trigger-1", reason="manual")
    bench.claims(wish)
    seen = bench.clock.mono()
    bench.clock.advance(LEASE)
    bench.claims(wish._replace(wants=2, beat=0, first_seen=seen), by="b")


def triggered_and_nobody_has_it(bench):
    order(bench, "trigger-1", reason="manual")


def backfilled_after_nobody_claimed_it(bench):
    nothing_for_a_while(bench)
    ordered(bench, "backfill-1", reason="catch-up")


def backfilled_after_it_was_missed(bench):
    saturated(bench)
    ordered(bench, "backfill-1", reason="catch-up", status="failed", error="ValueError: no")


def backfilled_after_an_outage(bench):
    outage(bench)
    ordered(bench, "backfill-1", reason="catch-up")


def backfilled_after_a_success(bench):
    success(bench)
    ordered(bench, "backfill-1", reason="catch-up")


def backfilled_twice(bench):
    failed(bench)
    ordered(bench, "backfill-9", reason="catch-up", status="failed", error="ValueError: no")
    bench.clock.advance(1000)
    ordered(bench, "backfill-1", reason="catch-up")


MANUAL = "attempt 1 (manual) on instance-a, started {0}"
BACKFILLED = "backfilled, attempt 1 (catch-up) on instance-b, started"
TABLE = [
    (
        triggered,
        "success",
        [
            "success, triggered",
            "attempt 1 (manual) on instance-b, started {0}: success after 5 ms",
        ],
    ),
    (
        triggered_and_its_runner_died,
        "lost",
        ["lost: runner died, triggered", f"{MANUAL}: lost (runner died)"],
    ),
    (triggered_and_nobody_has_it, "due", ["due: no instance has claimed it yet"]),
    (
        backfilled_after_nobody_claimed_it,
        "never claimed",
        [
            (
                "never claimed: no instance with this job asked the store before the next slot,"
                " {10}, was due; only the latest slot is caught up; backfilled: success"
            ),
            f"{BACKFILLED} {{60}}: success after 5 ms",
        ],
    ),
    (
        backfilled_after_it_was_missed,
        "missed",
        [
            "missed: no free worker; backfilled: failed: ValueError: no",
            f"{BACKFILLED} {{10}}: failed after 5 ms: ValueError: no",
        ],
    ),
    (
        backfilled_after_an_outage,
        "missed",
        [
            (
                "missed: store unreachable; slots since {-10} (one record, that of {30}, stands for"
                " this slot too); backfilled: success"
            ),
            f"{BACKFILLED} {{40}}: success after 5 ms",
        ],
    ),
    (
        backfilled_after_a_success,
        "success",
        [
            "success; backfilled: success",
            f"{ON_A}: success after 5 ms",
            f"{BACKFILLED} {{0}}: success after 5 ms",
        ],
    ),
    (
        backfilled_twice,
        "failed",
        [
            "failed: ValueError: no such table; backfilled 2 times, at last: success",
            f"{ON_A}: failed after 5 ms: ValueError: no such table",
            f"{BACKFILLED} {{0}}: failed after 5 ms: ValueError: no",
            f"{BACKFILLED} {{1}}: success after 5 ms",
        ],
    ),
]
