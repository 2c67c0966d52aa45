"""The closing figures of a chaos run."""

from __future__ import annotations

from collections import Counter
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.rules_slots import explained_slots, required_slots, seen_slots

if TYPE_CHECKING:
    from tests.chaos.checker import Violation
    from tests.chaos.spans import Span
    from tests.chaos.story import Attempt, Story


class Waits(NamedTuple):
    """How long runs waited for their next attempt, in seconds."""

    hand_overs: list[float]  # from the interrupted attempt's end
    takeovers: list[float]  # from the end of the lease
    since_kill: list[float]


def waits(story: Story) -> Waits:
    """Measure each attempt after the first, by the ledger."""
    found = Waits([], [], [])
    started = {attempt.key: attempt for attempt in story.attempts}
    for key, late in started.items():
        before = started.get(key._replace(number=key.number - 1))
        if before is None:
            continue
        if before.ended <= late.started and before.how == "raised":
            found.hand_overs.append(late.started - before.ended)
        elif before.life.killed <= late.started:
            found.since_kill.append(late.started - before.life.killed)
            found.takeovers.append(late.started - lease_end(before, story))
    return found


def lease_end(attempt: Attempt, story: Story) -> float:
    return story.last_proof(attempt.key) + story.terms.lease


def percentiles(values: list[float]) -> str:
    """Return how many there are, and their p50 and p99, for people."""
    if len(values) < 2:
        return f"{len(values)}"
    cuts = quantiles(values, n=100, method="inclusive")
    return f"{len(values)}, p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s"


def figures(story: Story, violations: list[Violation]) -> str:
    """Return the closing figures, one line each."""
    found, seen = waits(story), seen_slots(story)
    explained, required = set(explained_slots(story, seen)), required_slots(story)
    statuses = Counter(run["status"] for run in story.records.values())
    kinds = Counter(violation.kind for violation in violations)
    lost = kinds["every_slot_is_explained"] + kinds["runs_are_decided"]
    doubled = kinds["each_attempt_starts_once"] + kinds["each_attempt_has_one_winner"]
    lines = {
        "slots due while an instance lived": len(seen),
        "of those explained": len(explained),
        "of those that had to be": len(required),
        "not explained, and nobody had the time to": len(seen - explained - required),
        "records": counted(statuses),
        "attempts started": len(story.attempts),
        "processes": len(story.lives),
        "hand-overs": percentiles(found.hand_overs),
        "takeovers after kills": percentiles(found.takeovers),
        "faults": counted(story.faults),
        "renewals that failed outside of a fault": len(unexplained(story)),
        "lost": lost,
        "doubled attempts": doubled,
        "violations": len(violations),
    }
    return "\n".join(f"  {name}: {value}" for name, value in lines.items())


def unexplained(story: Story) -> list[Span]:
    """Return the renewals that failed when nothing was in their way, or had been a moment ago."""
    patience = 2 * story.terms.heartbeat
    return [
        span
        for life in story.lives.values()
        for span in life.unanswered
        if not any(
            fault.touches(span.begin - patience, span.end)
            for fault in [*life.frozen, *life.troubled, *story.outages]
        )
    ]


def counted(counts: dict[str, int]) -> str:
    named = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f"{sum(counts.values())} ({named})"
