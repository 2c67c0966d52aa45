"""The fates of slots: how each comes about, and what is to be told of it."""

from __future__ import annotations

from anarchon._values import Result, SkipWish, instant, moment

LEASE = 30_000
HOUR = 3_600_000


# --- how a slot comes to its fate: each leaves its records in the store ---


def success(bench):
    bench.run_through(0)


def failed(bench):
    bench.claim(0)
    bench.finish(0, status="failed", error="ValueError: no such table\nmore", traceback="...")


def failed_again_and_again(bench):
    for slot in (-30, -20, -10, 0):
        bench.claim(slot)
        bench.finish(slot, status="success" if slot == -30 else "failed", error="ValueError: no")


def failed_around_a_gap(bench):
    for slot in (-30, -10, 0):
        bench.claim(slot)
        bench.finish(slot, status="failed", error="ValueError: no")


def timeout(bench):
    bench.claim(0)
    bench.finish(0, status="failed", error="TimeoutError: still running after 5 s")


def handed_over(bench):
    bench.claim(0)
    bench.release(0)


def handed_over_and_continued(bench):
    bench.claim(0)
    bench.release(0)
    bench.claim(0, by="b", wants=2)
    bench.finish(0, 2, by="b", reason="takeover")


def crashed_and_taken_over(bench, **terms):
    bench.claim(0, **terms)
    bench.clock.advance(LEASE)
    bench.claim(0, by="b", wants=2, beat=0, unseen=LEASE, **terms)
    bench.finish(0, 2, by="b", reason="takeover")


def crashed_once_too_often(bench):
    crashed_and_taken_over(bench, budget=1)


def crashed_and_abandoned(bench):
    crashed_and_taken_over(bench, budget=0)


def running(bench):
    bench.claim(0)


def interrupted_and_abandoned(bench):
    bench.claim(0)
    bench.finish(0, status="interrupted", detail="not handed over")


def overlap(bench):
    bench.claim(-10)
    bench.claim(0)


def overlap_again_and_again(bench):
    bench.claim(-30)
    for slot in (-20, -10, 0):
        bench.claim(slot)


def overlap_too_often_to_be_kept(bench):
    """The last twenty skips are."""
    bench.claim(-10)
    for slot in range(0, 250, 10):
        bench.claim(slot)
        bench.renew(-10)
        bench.clock.advance(10_000)


def paused(bench):
    bench.backend.pause("job", duration_ms=None)
    bench.claim(0)


def newer_slot(bench):
    bench.clock.advance(10_000)
    bench.run_through(10)
    bench.claim(0)


def saturated(bench):
    bench.clock.advance(10_000)
    bench.skip(0, 10)


def outage(bench):
    """Its slots are closed by one record, that of the last."""
    bench.clock.advance(40_000)
    first = moment(instant(bench.key(-10).slot_ms))
    wish = SkipWish(bench.key(30), bench.key(40).slot_ms, f"store unreachable; slots since {first}")
    bench.backend.skip([wish], owner=bench.owner("a"), pace=bench.pace())


def outage_that_two_came_back_from(bench):
    outage(bench)
    bench.claim(0, by="b")


def cancelled(bench):
    bench.claim(0)
    bench.any.cancel(bench.key(0))
    bench.release(0)


def cancelled_while_it_waited(bench):
    handed_over(bench)
    bench.any.cancel(bench.key(0))


def by_hand(bench):
    lease = bench.manual("token")
    result = Result(lease.key, 1, "success", "manual", bench.now_ms(), 5)
    bench.backend.finish([result], owner=bench.owner("a"))


def by_hand_beside(bench):
    success(bench)
    by_hand(bench)


def nothing(bench):
    pass


def nothing_for_a_while(bench):
    bench.clock.advance(60_000)


def nothing_for_hours(bench):
    bench.clock.advance(2 * HOUR)


def much_that_is_newer(bench):
    for slot in range(10, 130, 10):
        bench.clock.advance(10_000)
        bench.run_through(slot)


ON_A = "attempt 1 (scheduled) on instance-a, started {0}"
TABLE = [
    (success, "success", ["success", f"{ON_A}: success after 5 ms"]),
    (
        failed,
        "failed",
        [
            "failed: ValueError: no such table",
            f"{ON_A}: failed after 5 ms: ValueError: no such table",
        ],
    ),
    (
        failed_again_and_again,
        "failed",
        [
            "failed: ValueError: no; 3 slots in a row, since {-20}",
            f"{ON_A}: failed after 5 ms: ValueError: no",
        ],
    ),
    (
        failed_around_a_gap,
        "failed",
        [
            "failed: ValueError: no; 2 slots in a row, since {-10}",
            f"{ON_A}: failed after 5 ms: ValueError: no",
        ],
    ),
    (
        timeout,
        "failed",
        [
            "failed: TimeoutError: still running after 5 s",
            f"{ON_A}: failed after 5 ms: TimeoutError: still running after 5 s",
        ],
    ),
    (
        handed_over,
        "interrupted",
        [
            "interrupted: handed over by an instance that stopped; nobody has continued it yet",
            f"{ON_A}: interrupted after 5 ms (handed over)",
        ],
    ),
    (
        handed_over_and_continued,
        "success",
        [
            "success at attempt 2",
            f"{ON_A}: interrupted after 5 ms (handed over)",
            "attempt 2 (takeover) on instance-b, started {0}: success after 5 ms",
        ],
    ),
    (
        crashed_and_taken_over,
        "success",
        [
            "success at attempt 2",
            f"{ON_A}: lost (taken over)",
            "attempt 2 (takeover) on instance-b, started {30}: success after 5 ms",
        ],
    ),
    (
        crashed_once_too_often,
        "failed",
        ["failed: runner died 1 time", f"{ON_A}: failed: runner died 1 time"],
    ),
    (crashed_and_abandoned, "lost", ["lost: runner died", f"{ON_A}: lost (runner died)"]),
    (running, "running", ["running: on instance-a", f"{ON_A}: running"]),
    (
        interrupted_and_abandoned,
        "interrupted",
        [
            "interrupted: not handed over",
            f"{ON_A}: interrupted after 5 ms (not handed over)",
        ],
    ),
    (
        overlap,
        "skipped",
        ["skipped: another run of the job was going on, or could still be continued (overlap)"],
    ),
    (
        overlap_again_and_again,
        "skipped",
        [
            (
                "skipped: another run of the job was going on, or could still be continued"
                " (overlap); 3 slots in a row, since {-20}"
            )
        ],
    ),
    (
        overlap_too_often_to_be_kept,
        "no record",
        [
            (
                "no record: it may have been skipped, of which history keeps the last 20 slots,"
                " since {50}; if not, no instance with this job asked the store in time"
            )
        ],
    ),
    (paused, "skipped", ["skipped: the job was paused"]),
    (newer_slot, "skipped", ["skipped: a newer slot was decided first"]),
    (saturated, "missed", ["missed: no free worker"]),
    (
        outage,
        "missed",
        [
            (
                "missed: store unreachable; slots since {-10} (one record, that of {30}, stands for"
                " this slot too)"
            )
        ],
    ),
    (
        outage_that_two_came_back_from,
        "missed",
        [
            (
                "missed: store unreachable; slots since {-10} (one record, that of {30}, stands for"
                " this slot too)"
            )
        ],
    ),
    (
        cancelled,
        "interrupted",
        ["interrupted: cancelled", f"{ON_A}: interrupted after 5 ms (cancelled)"],
    ),
    (
        cancelled_while_it_waited,
        "interrupted",
        ["interrupted: cancelled", f"{ON_A}: interrupted after 5 ms (cancelled)"],
    ),
    (
        by_hand,
        "success",
        [
            "success, run by hand",
            "attempt 1 (manual) on instance-a, started {0}: success after 5 ms",
        ],
    ),
    (by_hand_beside, "success", ["success", f"{ON_A}: success after 5 ms"]),
    (nothing, "due", ["due: no instance has claimed it yet"]),
    (
        nothing_for_a_while,
        "never claimed",
        [
            (
                "never claimed: no instance with this job asked the store before the next slot,"
                " {10}, was due; only the latest slot is caught up"
            )
        ],
    ),
    (
        much_that_is_newer,
        "no record",
        ["no record: it is older than all runs that history keeps, which begin at {10}"],
    ),
]
