"""The slot ledger: in a window, every slot of a job is explained exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime

FINAL = {"success", "failed", "skipped", "missed", "lost", "interrupted"}
FOLLOWED = {"lost", "interrupted"}  # what an attempt reads that was followed by another one


def by_slot(runs):
    """Return the records of each slot, by attempt; manual runs are no slots."""
    slots = defaultdict(list)
    for run in runs:
        if not run.manual:
            slots[run.slot].append(run)
    return {slot: sorted(found, key=lambda run: run.attempt) for slot, found in slots.items()}


def grid(first: int, last: int, period_ms: int) -> list[int]:
    """Return the slots of a window, both ends included."""
    return list(range(-(-first // period_ms) * period_ms, last + 1, period_ms))


def covered(run) -> range:
    """Return the instants that the record of a missed slot stands for: those of an outage."""
    _, _, since = (run.detail or "").partition("; slots since ")
    first = round(datetime.fromisoformat(since).timestamp() * 1000) if since else run.slot
    return range(first, run.slot + 1)


def check_ledger(runs, first: int, last: int, period_ms: int) -> dict:
    """Check that every slot of the window is explained exactly once; return them."""
    slots = by_slot(runs)
    strange = [slot for slot in slots if slot % period_ms]
    assert not strange, f"off the grid: {strange}"
    window = grid(first, last, period_ms)
    outages = [covered(run) for runs in slots.values() for run in runs if run.status == "missed"]
    missing = [s for s in window if s not in slots and not any(s in one for one in outages)]
    assert not missing, f"unexplained: {missing}"
    window = [slot for slot in window if slot in slots]
    for slot in window:
        attempts = slots[slot]
        assert [run.attempt for run in attempts] == list(range(1, len(attempts) + 1)), attempts
        assert {run.status for run in attempts[:-1]} <= FOLLOWED, attempts
        assert attempts[-1].status in FINAL, attempts
    return {slot: slots[slot] for slot in window}


def check_faultless(fleet, job: str, first: int, last: int, period_ms: int) -> None:
    """Check a window without faults: each slot one success, of attempt 1, by one process."""
    slots = check_ledger(fleet.history(job), first, last, period_ms)
    odd = [
        run
        for runs in slots.values()
        for run in runs
        if (run.attempt, run.status) != (1, "success")
    ]
    assert not odd, odd
    check_tellings(fleet, job)


def check_tellings(fleet, job: str) -> None:
    """Check by the processes' own words that no attempt began twice and no run ended twice."""
    begun = Counter((line["slot"], line["attempt"]) for line in fleet.said("begin", job=job))
    assert max(begun.values(), default=0) <= 1, begun
    ended = Counter(
        line["run_id"]
        for event in ("success", "failure", "skipped", "missed")
        for line in fleet.said("run", event=event, job=job)
    )
    assert max(ended.values(), default=0) <= 1, ended
