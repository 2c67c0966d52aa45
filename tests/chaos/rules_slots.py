"""What has to be true of slots and their records. Each rule yields (job, slot, text)."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.story import Key, Life, Story

Found = tuple[str, int, str]

FOLLOWED = {"lost", "interrupted"}  # what an attempt reads that was followed by another one
REASONS = {"overlap", "newer slot"}
DIED = "runner died "
# A process that has just come knows the store's clock by one reply, which may have been slow. By
# so much the store lets it be wrong; a slot may lie behind it that is still to come.
UNSURE_SECONDS = 1.0


# --- which slots have to be explained ---


def settle_seconds(story: Story) -> float:
    """Return how long a process with nothing in its way may need to settle a slot.

    The slot may be blocked by a run whose runner died. It is taken over within so many heartbeats
    after the lease's end, when it isn't sure that the store's clock keeps pace.
    """
    return story.terms.lease + 3 * story.terms.heartbeat


def reach(life: Life, story: Story) -> float:
    """Return until which moment a slot's being due is that process's business; -inf if never.

    A slot has to be settled by whoever was there when it was due, and afterwards had the time
    for it, undisturbed and in one piece.
    """
    needed = settle_seconds(story)
    ends = [span.end - needed for span in life.able(story.outages) if span.seconds >= needed]
    return max(ends, default=-inf)


def due_slots(story: Story, life: Life, since: float, until: float) -> Iterator[tuple[str, int]]:
    """Yield the slots that were due in a part of a life, and inside of the window."""
    first, last = max(since, story.first), min(until, story.last)
    if first > last:
        return
    for job, plan in story.plans[life.version].items():
        begin = -(-story.slot_at(first) // plan.every_ms) * plan.every_ms
        yield from ((job, slot) for slot in range(begin, story.slot_at(last) + 1, plan.every_ms))


def required_slots(story: Story) -> set[tuple[str, int]]:
    """Return all slots that have to be explained."""
    return {
        slot
        for life in story.lives.values()
        for slot in due_slots(story, life, life.running + UNSURE_SECONDS, reach(life, story))
    }


def seen_slots(story: Story) -> set[tuple[str, int]]:
    """Return all slots that were due while an instance lived, if only for a moment."""
    return {
        slot
        for life in story.lives.values()
        for slot in due_slots(story, life, life.running, life.leaving)
    }


def explained_slots(story: Story, slots: set[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield those slots of which there is a record, perhaps one for several."""
    recorded = {key[:2] for key in story.records}
    covers = defaultdict(list)
    for key, run in story.records.items():
        if run["status"] == "missed":
            covers[key.job].append(covered(key.slot, run["detail"]))
    for job, slot in slots:
        if (job, slot) in recorded or any(slot in one for one in covers[job]):
            yield job, slot


def covered(slot: int, detail: str | None) -> range:
    """Return the instants that the record of a missed slot stands for: those of an outage."""
    _, _, since = (detail or "").partition("; slots since ")
    first = round(datetime.fromisoformat(since).timestamp() * 1000) if since else slot
    return range(first, slot + 1)


def every_slot_is_explained(story: Story) -> Iterator[Found]:
    required = required_slots(story)
    for job, slot in sorted(required - set(explained_slots(story, required))):
        yield job, slot, "lost: it was due while an instance lived, and nothing is recorded of it"


# --- what records may say ---


def runs(story: Story) -> dict[tuple[str, int], list[tuple[Key, dict]]]:
    """Return the records of each slot, by attempt."""
    found = defaultdict(list)
    for key, run in sorted(story.records.items()):
        found[key.job, key.slot].append((key, run))
    return found


def attempts_are_numbered_without_a_gap(story: Story) -> Iterator[Found]:
    for (job, slot), records in runs(story).items():
        numbers = [key.number for key, _ in records]
        if numbers != list(range(1, len(numbers) + 1)):
            yield job, slot, f"attempts {numbers}"
        strange = {run["status"] for _, run in records[:-1]} - FOLLOWED
        if strange:
            yield job, slot, f"an attempt that was followed by another one reads {strange}"


def runs_are_decided(story: Story) -> Iterator[Found]:
    """See that the last attempt of each run is an end."""
    for (job, slot), records in runs(story).items():
        if not story.first <= story.moment_of(slot) <= story.last:
            continue
        _, run = records[-1]
        status, detail, error = run["status"], run["detail"], run["error"] or ""
        is_abandoned = story.plan_of(job).is_abandoned
        if status == "running":
            yield job, slot, "still running at the end"
        elif status == "interrupted" and not (is_abandoned and detail == "not handed over"):
            yield job, slot, f"nobody went on with it: {detail}"
        elif status == "lost" and not (is_abandoned and detail == "runner died"):
            yield job, slot, f"lost: {detail}"
        elif status == "failed" and error.startswith(DIED):
            deaths = sum(one["status"] in FOLLOWED for _, one in records[:-1]) + 1
            if deaths < int(error.removeprefix(DIED).split()[0]):
                yield job, slot, f"{error!r}, but it had {deaths} attempts"


def at_most_one_success(story: Story) -> Iterator[Found]:
    for (job, slot), records in runs(story).items():
        if sum(run["status"] == "success" for _, run in records) > 1:
            yield job, slot, "two successes"


def skips_have_a_reason(story: Story) -> Iterator[Found]:
    newest = defaultdict(int)
    for key in story.records:
        newest[key.job] = max(newest[key.job], key.slot)
    for key, run in story.records.items():
        status, detail = run["status"], run["detail"]
        if status == "missed" and not detail:
            yield key.job, key.slot, "missed for no reason"
        if status != "skipped":
            continue
        if detail not in REASONS:
            yield key.job, key.slot, f"skipped: {detail}"
        elif detail == "overlap" and not story.plan_of(key.job).skips_overlap:
            yield key.job, key.slot, "skipped for an overlap that is allowed"
        elif detail == "newer slot" and newest[key.job] <= key.slot:
            yield key.job, key.slot, "skipped for a newer slot that isn't there"


def nobody_is_interrupted_without_a_cause(story: Story) -> Iterator[Found]:
    """See that whoever lost a run, or gave it up, was struck or asked to stop."""
    for key, run in story.records.items():
        if run["status"] not in FOLLOWED or run["instance_id"] not in story.lives:
            continue
        life = story.lives[run["instance_id"]]
        sent = [sent for sent, _ in story.proofs.get(key, [])]
        begin = min(sent, default=story.moment_of(key.slot)) - story.terms.lease
        after = story.proofs.get(key._replace(number=key.number + 1), [])
        end = min((known for _, known in after), default=inf)
        struck = life.leaving <= end or life.was_frozen(begin, end)
        troubles = [*life.troubled, *life.unanswered, *story.outages]
        troubled = any(span.touches(begin, end) for span in troubles)
        if not struck and not troubled:
            text = f"attempt {key.number} reads {run['status']}, and nothing had happened to"
            yield key.job, key.slot, f"{text} {life.name}"
